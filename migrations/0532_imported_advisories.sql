-- Advisories from files in OSV form.
alter table advisory
  add column osv_id text constraint advisory_osv_id_max_100_characters check (char_length(osv_id) <= 100),
  add column aliases text[] not null default '{}' constraint advisory_has_at_most_20_aliases check (cardinality(aliases) <= 20),
  add column source_modified_at timestamptz,
  add column modified_at timestamptz;
create unique index advisory_is_imported_once on advisory (package_id, osv_id) where osv_id is not null;
comment on column advisory.osv_id is 'The id in the file from which it was imported. Null for one that was written here.';
comment on column advisory.aliases is 'Other ids of the same problem, without the CVE.';
comment on column advisory.source_modified_at is 'The time of change in the file from which it was imported last.';
comment on column advisory.modified_at is 'When an import has changed it. Null for never.';
