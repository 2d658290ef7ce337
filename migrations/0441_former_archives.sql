-- A development version gets a new archive with each commit. Lock files still name the former ones.
create table former_archive (
  version_id  bigint not null references package_version (id) on delete cascade,
  sha256      bytea not null references archive (sha256),
  replaced_at timestamptz not null default now(),
  primary key (version_id, sha256)
);
create index on former_archive (sha256);
create index on former_archive (replaced_at);
