-- Adds counted downloads to the days of their packages. It locks rows in key order, so two transactions cannot
-- deadlock.
create or replace function add_to_package_days() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into package_download_day as d (package_id, day, count)
    select v.package_id, n.day, sum(n.count)
      from new_rows n join package_version v on v.id = n.version_id
     group by v.package_id, n.day order by v.package_id, n.day
    on conflict (package_id, day) do update set count = d.count + excluded.count;
  else
    insert into package_download_day as d (package_id, day, count)
    select v.package_id, n.day, sum(n.count - o.count)
      from new_rows n join old_rows o using (version_id, day) join package_version v on v.id = n.version_id
     group by v.package_id, n.day order by v.package_id, n.day
    on conflict (package_id, day) do update set count = d.count + excluded.count;
  end if;
  return null;
end
$$;
