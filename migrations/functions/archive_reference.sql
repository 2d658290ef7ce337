-- Returns every row that refers to an archive, and whether the row needs the archive's file. Add every table with a
-- foreign key to archive: garbage collection, verification and backup read this view.
create or replace view archive_reference as
  select sha256, purged_at is null as keeps_file from package_version
  union all
  select sha256, is_stored as keeps_file from mirrored_archive where sha256 is not null
  union all
  select sha256, state = 'staged' as keeps_file from staged_version
  union all
  select sha256, (select purged_at is null from package_version where id = version_id) as keeps_file from former_archive;
