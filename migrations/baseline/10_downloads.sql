-- Download counts. Totals are kept instead of summed on every read. Their pages keep room, because a count is updated in
-- place all the time, and no index holds it.

create table package_download (
  version_id bigint not null references package_version (id) on delete cascade,
  day        date not null,
  count      bigint not null,
  primary key (version_id, day)
) with (fillfactor = 70);
-- For the job that turns old days into months.
create index on package_download (day);

create table package_download_month (
  version_id bigint not null references package_version (id) on delete cascade,
  month      date not null constraint download_month_is_its_first_day check (month = date_trunc('month', month)),
  count      bigint not null,
  primary key (version_id, month)
);
comment on table package_download_month is 'The sums of days that were removed from package_download because they are older than 90 days.';

create table version_download_total (
  version_id bigint primary key references package_version (id) on delete cascade,
  count      bigint not null
) with (fillfactor = 60);
comment on table version_download_total is 'All downloads of a version, ever. Kept by triggers on package_download.';

create table package_download_total (
  package_id bigint primary key references package (id) on delete cascade,
  count      bigint not null
) with (fillfactor = 60);
comment on table package_download_total is 'All downloads of a package, ever. Kept by triggers on package_download.';

-- Downloads of a package by day, for the chart on its page.
create table package_download_day (
  package_id bigint not null references package (id) on delete cascade,
  day        date not null,
  count      bigint not null,
  primary key (package_id, day)
) with (fillfactor = 70);
create index on package_download_day (day);
comment on table package_download_day is 'Kept by triggers on package_download; days older than 90 days are removed.';

create trigger downloads_are_added_to_totals_when_inserted after insert on package_download
  referencing new table as new_rows for each statement execute function add_to_download_totals();
create trigger downloads_are_added_to_totals_when_updated after update on package_download
  referencing old table as old_rows new table as new_rows for each statement execute function add_to_download_totals();
create trigger downloads_are_added_to_days_when_inserted after insert on package_download
  referencing new table as new_rows for each statement execute function add_to_package_days();
create trigger downloads_are_added_to_days_when_updated after update on package_download
  referencing old table as old_rows new table as new_rows for each statement execute function add_to_package_days();

-- The list of packages by downloads, for any number of packages.
create table package_rank (
  package_id    bigint primary key references package (id) on delete cascade,
  repository_id bigint not null,
  downloads     bigint not null default 0
);
create index packages_by_downloads on package_rank (repository_id, downloads, package_id);
comment on table package_rank is
  'The downloads of each package some minutes ago. The job rank-packages copies the totals, so that downloads do not change an index.';
create trigger new_packages_are_ranked after insert on package
  referencing new table as new_rows for each statement execute function rank_new_packages();
