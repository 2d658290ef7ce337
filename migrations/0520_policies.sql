-- Policies: which packages, versions and licences a group denies. Composer enforces them for all repositories of a project.
create table policy_rule (
  id         bigint generated always as identity primary key,
  group_id   bigint not null references repository_group (id) on delete cascade,
  kind       text not null constraint policy_kind_is_known check (kind in ('packages', 'licenses', 'unapproved')),
  patterns   text[] not null constraint policy_has_1_to_500_patterns check (cardinality(patterns) between 1 and 500),
  reason     text not null constraint policy_reason_1_to_300_characters check (char_length(reason) between 1 and 300)
             constraint policy_reason_is_plain_text check (is_plain_text(reason)),
  made_by    bigint,
  created_at timestamptz not null default now(),
  changed_at timestamptz not null default now()
);
create index on policy_rule (group_id, id);
comment on column policy_rule.kind is
  'packages: denies what matches; licenses: denies packages that need such a licence; unapproved: denies what does not match.';
comment on column policy_rule.reason is 'What people see in Composer.';
comment on column policy_rule.made_by is
  'The account that made it; null for the command line. No foreign key: the rule outlives the account.';

-- The packages that lock files of a group have named: what it knows about licences of other repositories.
create table group_locked_package (
  package_id integer not null references locked_package (id) on delete cascade,
  group_id   bigint not null references repository_group (id) on delete cascade,
  primary key (package_id, group_id)
);
create index on group_locked_package (group_id);

alter table project_finding
  drop constraint finding_reason_is_known,
  add constraint finding_reason_is_known
      check (reason in ('advisory', 'quarantined', 'malware', 'abandoned', 'denied', 'license')) not valid;
