-- The versions that a document of an upstream holds back until they are old enough, and those that an admin has allowed
-- before that.
create table early_version (
  package_id  bigint not null references mirrored_package (id) on delete cascade,
  version_key text not null
              constraint early_version_key_max_400_characters check (char_length(version_key) <= 400),
  allowed_at  timestamptz not null default now(),
  primary key (package_id, version_key)
);
comment on column early_version.version_key is
  'The version and reference of its archive, so that other content needs a new decision; without an archive, the normalized version.';

alter table mirrored_document
  add column held_back jsonb not null default '[]',
  add column is_all_held_back boolean not null default false;
comment on column mirrored_document.held_back is
  'The first versions that are younger than the minimum age: {version, key, until}.';
comment on column mirrored_document.is_all_held_back is 'Whether it has no versions, because all are too young.';
