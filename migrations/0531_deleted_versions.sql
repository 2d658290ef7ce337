-- Retention looks for the deleted versions of a repository's packages.
create index concurrently if not exists deleted_versions on package_version (package_id)
  where deleted_at is not null and purged_at is null;
