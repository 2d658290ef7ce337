-- Trigger of package_download: adds the counted downloads to the totals.
create or replace function add_to_download_totals() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    perform add_downloads(array(select row(version_id, count)::version_download_total from new_rows));
  else
    perform add_downloads(array(select row(n.version_id, n.count - o.count)::version_download_total
                                  from new_rows n join old_rows o using (version_id, day)));
  end if;
  return null;
end
$$;
