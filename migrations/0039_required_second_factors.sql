-- A group may require a second factor of its members. Passkeys are second factors too, and replace the password. Sensitive
-- acts need a proof that is not older than 15 minutes.
alter table repository_group add column requires_second_factor boolean not null default false;

create table passkey (
  id            bigint generated always as identity primary key,
  account_id    bigint not null references account (id) on delete cascade,
  credential_id bytea not null unique check (octet_length(credential_id) between 1 and 1023),
  public_key    bytea not null check (octet_length(public_key) between 1 and 4096),
  sign_count    bigint not null default 0,
  transports    text[] not null default '{}',
  name          text not null constraint passkey_name_has_1_to_100_characters check (char_length(name) between 1 and 100),
  created_at    timestamptz not null default now(),
  last_used_at  timestamptz
);
create index on passkey (account_id);
comment on column passkey.sign_count is 'As the authenticator counted its last use. Most passkeys always say 0.';
create trigger identity_event_of_passkey after insert or delete on passkey
  for each row execute function note_factor_event();

-- Challenges that a browser must sign now: each works once.
create table passkey_challenge (
  challenge_hash bytea primary key check (octet_length(challenge_hash) = 32),
  browser_hash   bytea not null check (octet_length(browser_hash) = 32),
  account_id     bigint references account (id) on delete cascade,
  purpose        text not null check (purpose in ('register', 'second-step', 'sign-in', 'confirm')),
  expires_at     timestamptz not null
);
create index on passkey_challenge (expires_at);
create index on passkey_challenge (account_id) where account_id is not null;
comment on column passkey_challenge.browser_hash is 'SHA-256 of the cookie of the browser that got the challenge.';

alter table session add column proved_at timestamptz not null default now();
update session set proved_at = created_at;
comment on column session.proved_at is 'When the person last proved to be the owner of the account: by a password, a code or a passkey.';
