-- Download counts: totals are kept instead of summed on every read, and old days become months (DESIGN §6).

create table package_download_month (
  version_id bigint not null references package_version (id) on delete cascade,
  month      date not null constraint download_month_is_its_first_day check (month = date_trunc('month', month)),
  count      bigint not null,
  primary key (version_id, month)
);
comment on table package_download_month is 'The sums of days that were removed from package_download because they are older than 90 days.';

-- fillfactor: a total is updated in place all the time, and no index holds the count.
create table version_download_total (
  version_id bigint primary key references package_version (id) on delete cascade,
  count      bigint not null
) with (fillfactor = 60);
create table package_download_total (
  package_id bigint primary key references package (id) on delete cascade,
  count      bigint not null
) with (fillfactor = 60);
comment on table version_download_total is 'All downloads of a version, ever. Kept by triggers on package_download.';
comment on table package_download_total is 'All downloads of a package, ever. Kept by triggers on package_download.';

alter table package_download set (fillfactor = 70);
-- For the job that turns old days into months.
create index on package_download (day);

insert into version_download_total (version_id, count)
select version_id, sum(count) from package_download group by version_id;
insert into package_download_total (package_id, count)
select v.package_id, sum(t.count)
  from version_download_total t join package_version v on v.id = t.version_id
 group by v.package_id;

-- Triggers, not the statement that counts: a release that does not know the totals may run beside this one.
create function add_to_download_totals() returns trigger language plpgsql as $$
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

-- Adds to the totals in key order, so that two transactions meet the rows in the same order.
create function add_downloads(added version_download_total[]) returns void language sql as $$
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

create trigger downloads_are_added_to_totals_when_inserted after insert on package_download
  referencing new table as new_rows for each statement execute function add_to_download_totals();
create trigger downloads_are_added_to_totals_when_updated after update on package_download
  referencing old table as old_rows new table as new_rows for each statement execute function add_to_download_totals();
