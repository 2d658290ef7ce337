-- The account that created a group, for the limit of groups for each account.

alter table repository_group add column creator_id bigint;
create index on repository_group (creator_id);
comment on column repository_group.creator_id is
  'The account that created it; null for a command and for older groups. No foreign key: the group outlives the account.';
