-- Adds downloads to the totals of their versions and packages. It does so in key order, so that two transactions meet
-- the rows in the same order.
create or replace function add_downloads(added version_download_total[]) returns void language sql as $$
  with versions as (
    insert into version_download_total as t (version_id, count)
    select version_id, sum(count) from unnest(added) group by version_id order by version_id
    on conflict (version_id) do update set count = t.count + excluded.count
  )
  insert into package_download_total as t (package_id, count)
  select v.package_id, sum(a.count)
    from unnest(added) a join package_version v on v.id = a.version_id
   group by v.package_id order by v.package_id
  on conflict (package_id) do update set count = t.count + excluded.count
$$;
