-- Applications that svc itself adds, such as that of the command line. Each is added once.
create table provided_application (
  client_id text primary key check (client_id ~ '^[a-z0-9]{8,64}$'),
  added_at  timestamptz not null default now()
);
comment on table provided_application is
  'Applications that svc has added. One that an administrator has deleted since then is not added again.';
