-- An account that was created by a sign-in with a provider has no password. It had a hash that nobody's password matches.
alter table account alter column password_hash drop not null;
-- This is no change of a password: it writes no event.
select set_config('svc.is_rehash', 'on', true);
update account set password_hash = null
 where password_hash = '$argon2id$v=19$m=19456,p=1,t=2$zkY1icGpUMymFBlYwv7JiQ$kEpWsGuzHeS+BEd2N9QKnOHJO9MsW7ISXlU+6Q7t9KU';
comment on column account.password_hash is
  'argon2id in PHC form; rehashed at sign-in when the parameters change. Null without a password.';
