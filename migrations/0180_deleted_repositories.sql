-- A deleted repository can be restored for 14 days. Until then it is in no group, so that no path leads to it and no
-- member of a group has it. Its name stays taken in the group that it was deleted from.
alter table repository
  alter column group_id drop not null,
  add column deleted_from_id bigint references repository_group (id) on delete cascade,
  add column deleted_at timestamptz,
  add constraint repository_is_in_a_group_or_deleted check ((group_id is null) = (deleted_from_id is not null)),
  add constraint repository_is_deleted_at_a_time check ((deleted_from_id is null) = (deleted_at is null));
comment on column repository.group_id is 'Null for a deleted repository.';
comment on column repository.deleted_from_id is 'The group of a deleted repository. Its limits still count the repository.';
create unique index repository_name_is_of_a_deleted_one on repository (coalesce(group_id, deleted_from_id), name);
create index on repository (deleted_from_id) where deleted_from_id is not null;
create index on repository (deleted_at) where deleted_at is not null;
