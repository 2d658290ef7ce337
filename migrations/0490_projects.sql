-- Projects: what the lock files of a group's applications install. A group keeps the newest lock of each environment.
create table project (
  id         bigint generated always as identity primary key,
  group_id   bigint not null references repository_group (id) on delete cascade,
  name       text not null constraint project_name_is_well_formed check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
  created_at timestamptz not null default now(),
  constraint project_name_is_taken unique (group_id, name)
);

-- Each package as lock files name it, once for all projects.
create table locked_package (
  id         integer generated always as identity primary key,
  digest     bytea not null constraint locked_package_digest_has_32_bytes check (octet_length(digest) = 32),
  name       text not null,
  version    text not null,
  normalized text not null,
  entry      jsonb not null,
  used_on    date not null default current_date,
  constraint locked_package_is_there unique (digest)
);
create index on locked_package (name);
comment on column locked_package.digest is 'SHA-256 of name, version and entry.';
comment on column locked_package.normalized is 'The version as Composer normalizes it. Empty when Composer cannot read it.';
comment on column locked_package.entry is 'What an SBOM needs of the entry in the lock file.';
comment on column locked_package.used_on is
  'A day when a lock named it, at most a week before the last such day. Rows that no lock names go a month later.';

create table project_lock (
  project_id   bigint not null references project (id) on delete cascade,
  environment  text not null constraint environment_is_well_formed check (environment ~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$'),
  commit_id    text constraint project_commit_1_to_100_characters check (char_length(commit_id) between 1 and 100),
  posted_at    timestamptz not null default now(),
  posted_by    bigint,
  packages     integer[] not null,
  dev_packages integer[] not null,
  primary key (project_id, environment)
);
create index project_lock_by_package on project_lock using gin (packages);
comment on column project_lock.posted_by is
  'The account that sent it; null for a deploy token and the command line. No foreign key: the lock outlives the account.';
comment on column project_lock.packages is 'Ids of locked packages, those of packages-dev too.';

-- What is wrong with a locked package. The next lock of the environment resolves it.
create table project_finding (
  id           bigint generated always as identity primary key,
  project_id   bigint not null references project (id) on delete cascade,
  environment  text not null,
  package_name text not null,
  version      text not null,
  reason       text not null constraint finding_reason_is_known
               check (reason in ('advisory', 'quarantined', 'malware', 'abandoned', 'denied')),
  advisory     text not null default '',
  title        text constraint finding_title_max_500_characters check (char_length(title) <= 500),
  found_at     timestamptz not null default now(),
  resolved_at  timestamptz
);
create unique index finding_is_open on project_finding (project_id, environment, package_name, version, reason, advisory)
  where resolved_at is null;
create index on project_finding (resolved_at) where resolved_at is not null;
comment on column project_finding.advisory is 'The id of the advisory. Empty for other reasons.';
comment on column project_finding.title is 'What the advisory, the quarantine or the flag says, or the replacement of an abandoned package.';
