-- Returns every row that refers to an archive, whether the row needs the archive's file, and the version that it belongs
-- to. Add every table with a foreign key to archive: garbage collection, verification and backup read this view. Each part
-- reads one table, so that PostgreSQL looks for an archive through the indexes of all.
create or replace view archive_reference as
  select sha256, purged_at is null as keeps_file, (select repository_id from package where id = package_id) as repository_id,
         (select name from package where id = package_id) as package_name, version
    from package_version
  union all
  select sha256, is_stored as keeps_file, (select repository_id from mirrored_package where id = package_id),
         (select name from mirrored_package where id = package_id), version
    from mirrored_archive where sha256 is not null
  union all
  select sha256, state = 'staged' as keeps_file, repository_id, package_name, version from staged_version
  union all
  select sha256, (select purged_at is null from package_version where id = version_id) as keeps_file,
         (select p.repository_id from package_version v join package p on p.id = v.package_id where v.id = version_id),
         (select p.name from package_version v join package p on p.id = v.package_id where v.id = version_id),
         (select version from package_version where id = version_id)
    from former_archive;
