-- Retention: rules of a repository that delete old development versions and purge deleted ones.
create table repository_retention (
  repository_id         bigint primary key references repository (id) on delete cascade,
  keep_development      integer constraint retention_keeps_1_to_1000_development_versions check (keep_development between 1 and 1000),
  deleted_archives_days integer constraint retention_keeps_archives_1_to_3650_days check (deleted_archives_days between 1 and 3650),
  due_at                timestamptz not null,
  constraint retention_has_a_rule check (num_nonnulls(keep_development, deleted_archives_days) > 0)
);
create index on repository_retention (due_at);
comment on column repository_retention.keep_development is
  'How many development versions of each package stay: those that changed last. Null for all.';
comment on column repository_retention.deleted_archives_days is
  'After how many days a deleted version is purged. Null for never.';
comment on column repository_retention.due_at is
  'When the rules are applied next. A new or stricter rule waits a day.';

alter table package_version add column retired_at timestamptz;
comment on column package_version.retired_at is
  'When a retention rule deleted it. It stays after a restore, so that the rule does not delete the version again.';
