-- Downloads of a package by day, for the chart on its page: kept instead of summed over all versions on every read.
create table package_download_day (
  package_id bigint not null references package (id) on delete cascade,
  day        date not null,
  count      bigint not null,
  primary key (package_id, day)
) with (fillfactor = 70);
create index on package_download_day (day);
comment on table package_download_day is 'Kept by triggers on package_download; days older than 90 days are removed.';

insert into package_download_day (package_id, day, count)
select v.package_id, d.day, sum(d.count)
  from package_download d join package_version v on v.id = d.version_id
 group by v.package_id, d.day;

-- Only a place for the triggers to point to: the definition is in functions/.
create function add_to_package_days() returns trigger language plpgsql as $$
begin
  return null;
end
$$;
create trigger downloads_are_added_to_days_when_inserted after insert on package_download
  referencing new table as new_rows for each statement execute function add_to_package_days();
create trigger downloads_are_added_to_days_when_updated after update on package_download
  referencing old table as old_rows new table as new_rows for each statement execute function add_to_package_days();
