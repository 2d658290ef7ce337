-- The former name of a group is free for others after 90 days: URLs in composer.json and in CI systems still have it, so
-- a new owner could offer packages under it (DESIGN §4). The same for the former username of an account.
create table reserved_group_name (
  name           text primary key,
  group_id       bigint not null,
  reserved_until timestamptz not null
);
comment on column reserved_group_name.group_id is 'The group that had the name. It may have been deleted.';

alter table reserved_username add column account_id bigint;
comment on column reserved_username.account_id is 'The account that had the name. Null, or deleted: nobody may take it.';
create index on reserved_username (account_id);

-- Trigger functions. The definitions are in functions/. A name is checked after the row is written, when a rename or
-- deletion that ran at the same time can be seen.
create function refuse_reserved_group_name() returns trigger language plpgsql as 'begin return null; end';
create function reserve_group_name() returns trigger language plpgsql as 'begin return null; end';
create function reserve_username() returns trigger language plpgsql as 'begin return null; end';

create trigger group_name_is_not_reserved after insert or update of name on repository_group
  for each row execute function refuse_reserved_group_name();
create trigger group_name_is_reserved_after_deletion after delete on repository_group
  for each row execute function reserve_group_name();
create trigger group_name_is_reserved_after_rename after update of name on repository_group
  for each row when (old.name <> new.name) execute function reserve_group_name();
create trigger username_is_reserved_after_rename after update of username on account
  for each row when (old.username <> new.username) execute function reserve_username();
