-- When the last backup and the last garbage collection ended, so that monitoring can warn of missing ones.
create table maintenance (
  work     text primary key check (work in ('backup', 'garbage-collection')),
  ended_at timestamptz not null
);
insert into maintenance (work, ended_at)
select 'garbage-collection', succeeded_at from job_kind where name = 'collect-garbage' and succeeded_at is not null;
