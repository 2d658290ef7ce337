-- Background jobs: one queue on this database for all processes.

create table job (
  id         bigint generated always as identity primary key,
  name       text not null check (char_length(name) between 1 and 100),
  data       jsonb not null default '{}',
  key        text check (char_length(key) <= 300),
  run_at     timestamptz not null default now(),
  is_running boolean not null default false,
  attempts   integer not null default 0,
  failed_at  timestamptz,
  last_error text check (char_length(last_error) <= 2000),
  created_at timestamptz not null default now()
);
create index job_due on job (name, run_at) where failed_at is null;
create unique index job_runs_once on job (name, key) where is_running;
create index job_failed on job (failed_at) where failed_at is not null;
comment on column job.key is 'Of the jobs with one name and key, one runs at a time in all processes. Null: no such rule.';
comment on column job.run_at is 'When a process may take the job. While it runs: when its lease ends, unless the process extends it.';
comment on column job.attempts is 'How often a process took the job. A process that lost its lease sees from it that another one took the job.';
comment on column job.failed_at is 'Set after the last attempt. Such a row only informs the operator.';

create table job_kind (
  name         text primary key check (char_length(name) between 1 and 100),
  next_at      timestamptz,
  succeeded_at timestamptz
);
comment on column job_kind.next_at is 'When the schedule enqueues the job next. Null: it has no schedule.';
