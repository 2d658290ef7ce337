-- Returns the id of the group that has this name, or else of the group that had it last. Null when there is none.
create or replace function group_named(wanted text) returns bigint
language sql stable parallel safe as $$
  select coalesce(
    (select id from repository_group where name = wanted),
    (select g.id from reserved_group_name n join repository_group g on g.id = n.group_id where n.name = wanted))
$$;
