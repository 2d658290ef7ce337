-- A directory enables and disables an account only when it changes its mind: an administrator may have disabled it meanwhile.
alter table directory_user add column is_active boolean not null default true;
update directory_user d set is_active = false from account a where a.id = d.account_id and a.disabled_at is not null;
comment on column directory_user.is_active is 'What the directory said last. An administrator can disable the account, too.';
