-- Returns what a grant allows, for identity events: the scopes, the resource scope, at most 20 names of chosen repositories
-- with the number of the others, and the resources if they are limited.
create or replace function describe_grant(the_grant authorization_grant) returns jsonb
language sql stable as $$
  select jsonb_strip_nulls(jsonb_build_object(
           'scopes', the_grant.scopes, 'resource_scope', the_grant.resource_scope,
           'repositories', case when the_grant.resource_scope = 'specified' then to_jsonb(paths[1:20]) end,
           'others', nullif(greatest(cardinality(paths) - 20, 0), 0), 'resources', the_grant.resources))
    from (select array(select g.name || '/' || r.name
                         from repository r join repository_group g on g.id = r.group_id
                        where r.id = any (the_grant.repository_ids)
                        order by 1) as paths) as chosen
$$;
