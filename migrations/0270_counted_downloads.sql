-- The statement that counts downloads adds them to days and totals, too.
drop trigger downloads_are_added_to_totals_when_inserted on package_download;
drop trigger downloads_are_added_to_totals_when_updated on package_download;
drop trigger downloads_are_added_to_days_when_inserted on package_download;
drop trigger downloads_are_added_to_days_when_updated on package_download;
drop function add_to_download_totals();
drop function add_to_package_days();
drop function if exists add_downloads(version_download_total[]);
comment on table version_download_total is 'All downloads of a version, ever.';
comment on table package_download_total is 'All downloads of a package, ever.';
comment on table package_download_day is 'Days older than 90 days are removed.';

-- What processes of the previous release write while they run beside this one lacks what triggers did. A job adds it:
-- some minutes later, and again in case that the upgrade takes longer.
insert into job (name, key, data, run_at)
select 'finish-upgrade', '', jsonb_build_object('day', (now() at time zone 'utc')::date), now() + delay
  from unnest('{10 minutes,1 hour,1 day}'::interval[]) as delay
 where exists (select from package);
