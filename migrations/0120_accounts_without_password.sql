-- An account that was created by a sign-in with a provider has no password. It had a hash that nobody's password matches:
-- 0215 removes it.
alter table account alter column password_hash drop not null;
comment on column account.password_hash is
  'argon2id in PHC form; rehashed at sign-in when the parameters change. Null without a password.';
