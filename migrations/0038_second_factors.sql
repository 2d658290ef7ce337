-- Second factors: an authenticator app (RFC 6238) for each account, its recovery codes, and sign-ins that wait for them.
create table totp_factor (
  account_id     bigint primary key references account (id) on delete cascade,
  key_id         bytea not null check (octet_length(key_id) = 8),
  sealed_secret  bytea not null check (octet_length(sealed_secret) between 29 and 200),
  created_at     timestamptz not null default now(),
  confirmed_at   timestamptz,
  last_time_step bigint not null default 0
);
comment on column totp_factor.key_id is 'Names the key of the server. The database does not hold the key.';
comment on column totp_factor.sealed_secret is 'AES-256-GCM: 12 bytes nonce, ciphertext, 16 bytes tag. The account id is authenticated.';
comment on column totp_factor.confirmed_at is 'Null until a first code proves that the app has the secret. Only then it counts.';
comment on column totp_factor.last_time_step is 'The time step of the last accepted code. Codes up to it are refused.';

create table recovery_code (
  account_id bigint not null references account (id) on delete cascade,
  code_hash  bytea not null check (octet_length(code_hash) = 32),
  primary key (account_id, code_hash)
);

-- A browser that gave the right password and must give a second factor now. It is not signed in.
create table sign_in_step (
  id_hash         bytea primary key check (octet_length(id_hash) = 32),
  account_id      bigint not null references account (id) on delete cascade,
  credential_hash bytea not null check (octet_length(credential_hash) = 32),
  expires_at      timestamptz not null
);
create index on sign_in_step (account_id);
create index on sign_in_step (expires_at);
comment on column sign_in_step.credential_hash is 'SHA-256 of account.password_hash when the password was checked: a change of the password ends the step.';

-- The definition is in functions/.
create function note_factor_event() returns trigger language plpgsql as 'begin return null; end';
create trigger identity_event_of_totp_factor after insert or delete or update of confirmed_at on totp_factor
  for each row execute function note_factor_event();
