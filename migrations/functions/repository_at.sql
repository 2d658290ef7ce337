-- Returns the id of the repository that has this path, or else of the one that had it last. Null when there is none.
create or replace function repository_at(group_name text, repository_name text) returns bigint
language sql stable parallel safe as $$
  select coalesce((select id from repository where group_id = g.id and name = repository_name),
                  (select repository_id from repository_alias where group_id = g.id and name = repository_name))
    from (select group_named(group_name) as id) as g
$$;
