-- What an application that signs people in with svc is registered with (OPENID 243, 257, 258), and the logout tokens that wait.
alter table application add column id_token_alg text not null default 'RS256'
  constraint application_id_token_alg_is_known check (id_token_alg in ('RS256', 'ES256'));
alter table application add column post_logout_redirect_uri text
  constraint application_post_logout_redirect_uri_is_a_url_max_2000_characters
  check (char_length(post_logout_redirect_uri) <= 2000 and post_logout_redirect_uri ~ '^[a-z][a-z0-9+.-]*:/[!-~]*$');
alter table application add column backchannel_logout_uri text
  constraint application_backchannel_logout_uri_is_a_web_url_max_2000_characters
  check (char_length(backchannel_logout_uri) <= 2000 and backchannel_logout_uri ~ '^https?://[!-~]+$');
comment on column application.post_logout_redirect_uri is 'Where the browser returns after a sign-out that the application began.';
comment on column application.backchannel_logout_uri is 'Gets a logout token when a session ends with which the application has signed somebody in.';

create table openid_logout (
  id             bigint generated always as identity primary key,
  application_id bigint not null references application (id) on delete cascade,
  account_id     bigint not null,
  sid            uuid not null,
  attempts       integer not null default 0,
  created_at     timestamptz not null default now()
);
create index on openid_logout (application_id);
comment on table openid_logout is 'Logout tokens that were not delivered yet. A job sends each.';

-- The definition is in functions/.
create or replace function queue_openid_logout() returns trigger language plpgsql as 'begin return null; end';
create trigger session_ends_at_applications after delete on openid_session
  for each row execute function queue_openid_logout();
