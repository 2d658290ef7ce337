-- Second factors of accounts, and sign-ins that wait for them.

-- Authenticator apps (RFC 6238): one for each account.
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
  expires_at      timestamptz not null,
  proof_hash      bytea check (octet_length(proof_hash) = 32)
);
create index on sign_in_step (account_id);
create index on sign_in_step (expires_at);
comment on column sign_in_step.credential_hash is 'SHA-256 of account.password_hash when the password was checked: a change of the password ends the step.';
comment on column sign_in_step.proof_hash is 'The proven_identity that the step links. It may be gone: then the step links nothing, and signs nobody in. Null for a sign-in with a password.';

-- Passkeys are second factors too, and replace the password.
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

-- Challenges that a browser must sign now: each works once. Anybody can ask for them, so each network keeps a bounded number.
create table passkey_challenge (
  challenge_hash bytea primary key check (octet_length(challenge_hash) = 32),
  browser_hash   bytea not null check (octet_length(browser_hash) = 32),
  account_id     bigint references account (id) on delete cascade,
  purpose        text not null check (purpose in ('register', 'second-step', 'sign-in', 'confirm')),
  expires_at     timestamptz not null,
  network        text not null default ''
);
create index on passkey_challenge (expires_at);
create index on passkey_challenge (account_id) where account_id is not null;
create index on passkey_challenge (network, expires_at);
comment on column passkey_challenge.browser_hash is 'SHA-256 of the cookie of the browser that got the challenge.';
