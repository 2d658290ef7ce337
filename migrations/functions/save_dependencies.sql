-- Writes the requirements of a package's latest version to package_dependency. The caller holds the lock of the
-- package.
create or replace function save_dependencies(the_package_id bigint, the_repository_id bigint) returns void
language sql as $$
  with wanted as materialized (
    select lower(link.key) as target, link.kind = 'require-dev' as is_dev, min(link.value) as requirement
      from (select readable_json(metadata) as metadata
              from package_version where id = latest_version(the_package_id)) v
     cross join lateral (
       select 'require' as kind, key, value from json_each_text(
         case when json_typeof(v.metadata -> 'require') = 'object' then v.metadata -> 'require' else '{}' end)
       union all
       select 'require-dev', key, value from json_each_text(
         case when json_typeof(v.metadata -> 'require-dev') = 'object' then v.metadata -> 'require-dev' else '{}' end)
     ) link
     where strpos(link.key, '/') > 0 and char_length(link.key) <= 150
     group by 1, 2
  ), gone as (
    delete from package_dependency d
     where d.package_id = the_package_id
       and not exists (select from wanted w where w.target = d.target and w.is_dev = d.is_dev)
  )
  insert into package_dependency as d (target, repository_id, package_id, is_dev, requirement)
  select target, the_repository_id, the_package_id, is_dev, requirement from wanted
  on conflict (target, repository_id, package_id, is_dev) do update set requirement = excluded.requirement
   where d.requirement <> excluded.requirement
$$;
