-- What an ID token tells about a sign-in (OPENID 243). Only a code for the scope openid has it.
alter table session add column methods text[] not null default '{}';
comment on column session.methods is
  'How the person has proved their identity in this session. Empty for a session of the previous release.';

-- The applications that have signed a person in with a session. The row is deleted with the session.
create table openid_session (
  session_hash   bytea not null references session (id_hash) on delete cascade,
  application_id bigint not null references application (id) on delete cascade,
  account_id     bigint not null,
  sid            uuid not null default gen_random_uuid(),
  primary key (session_hash, application_id)
);
create index on openid_session (application_id);
create index on openid_session (account_id, application_id);
comment on column openid_session.sid is 'The session in tokens of this application. No other application has the same.';

create table openid_sign_in (
  code_hash        bytea primary key check (octet_length(code_hash) = 32),
  session_hash     bytea not null,
  sid              uuid not null,
  nonce            text constraint openid_nonce_max_1024_characters check (char_length(nonce) <= 1024),
  authenticated_at timestamptz not null,
  methods          text[] not null,
  id_token_claims  text[] not null,
  expires_at       timestamptz not null
);
create index on openid_sign_in (expires_at);
comment on table openid_sign_in is
  'Of the code, and of all pairs that come from it. No foreign keys: a refresh keeps it, and it expires with the last refresh token.';
comment on column openid_sign_in.id_token_claims is 'Claims about the account that the request wants in the ID token.';
