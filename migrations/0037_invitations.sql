-- Invitations: who accepts one makes an account with it, or adds a role in a group to an own account. A sign-up is an
-- invitation that somebody asks for with an email. Only the hash of the token is stored.
create table invitation (
  id              bigint generated always as identity primary key,
  token_hash      bytea unique check (octet_length(token_hash) = 32),
  made_by         text not null
                  constraint invitation_is_made_by_an_account_a_command_or_a_sign_up check (made_by in ('account', 'command', 'sign-up')),
  inviter_id      bigint references account (id) on delete cascade,
  email           text
                  constraint invitation_email_is_an_address_max_254_characters
                  check (char_length(email) <= 254 and email ~ '^[^@[:space:][:cntrl:]]+@[^@[:space:][:cntrl:]]+$'),
  is_sent_by_mail boolean not null,
  group_id        bigint references repository_group (id) on delete cascade,
  role            member_role,
  created_at      timestamptz not null default now(),
  expires_at      timestamptz not null,
  accepted_at     timestamptz,
  accepted_by     bigint references account (id) on delete set null,
  withdrawn_at    timestamptz,
  constraint invitation_of_an_account_has_an_inviter check ((made_by = 'account') = (inviter_id is not null)),
  constraint invitation_to_a_group_has_a_role check ((group_id is null) = (role is null)),
  constraint invitation_by_mail_has_an_email check (email is not null or not is_sent_by_mail)
);
comment on column invitation.token_hash is 'Null until the mail is sent: its token is made then.';
comment on column invitation.inviter_id is 'An invitation ends when its inviter may not invite any more.';
create index on invitation (group_id) where group_id is not null;
create index on invitation (inviter_id) where inviter_id is not null;
create index on invitation (accepted_by) where accepted_by is not null;
create index on invitation (expires_at);

-- The definition is in functions/.
create function note_invitation_event() returns trigger language plpgsql as 'begin return null; end';
create trigger identity_event_of_invitation after insert or update of accepted_at, withdrawn_at on invitation
  for each row execute function note_invitation_event();

-- The page for signing up has been added. Not validated, as before.
alter table repository_group drop constraint group_name_is_not_the_first_segment_of_another_url;
alter table repository_group add constraint group_name_is_not_the_first_segment_of_another_url
  check (name not in ('-', 'admin', 'api', 'applications', 'assets', 'docs', 'favicon.ico', 'healthz', 'invitations',
                      'login', 'logout', 'metrics', 'new', 'oauth2', 'password-reset', 'readyz', 'robots.txt',
                      'search', 'settings', 'sign-up')) not valid;
