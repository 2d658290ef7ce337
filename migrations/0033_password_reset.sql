-- Links that set a new password: one for each account, for an hour. Any change of the password makes its link useless.
create table password_reset (
  account_id      bigint primary key references account (id) on delete cascade,
  token_hash      bytea not null unique check (octet_length(token_hash) = 32),
  credential_hash bytea not null check (octet_length(credential_hash) = 32),
  expires_at      timestamptz not null
);
comment on column password_reset.credential_hash is 'SHA-256 of account.password_hash when the link was made.';
create index on password_reset (expires_at);
