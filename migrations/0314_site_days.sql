-- Figures of the whole site by day (UTC), for the charts of the administration. A job writes them: counting a month of events
-- and downloads for each look would read millions of rows on a large site, and of the storage nothing else keeps the past.
create table site_day (
  day           date primary key,
  sign_ins      integer not null check (sign_ins >= 0),
  pushes        integer not null check (pushes >= 0),
  pulls         bigint not null check (pulls >= 0),
  archive_bytes bigint check (archive_bytes >= 0)
);
comment on table site_day is 'The job count-site-days writes the last two days again every hour.';
comment on column site_day.archive_bytes is 'Of the stored archives at the last count of the day. Null for days before the first count.';
