-- Returns every row that names an archive, and whether the archive's file must be kept for it. A table with a foreign key to
-- archive must be part of this view: garbage collection, verification and backup read it.
create or replace view archive_reference as
  select sha256, purged_at is null as keeps_file from package_version
  union all
  select sha256, is_stored as keeps_file from mirrored_archive where sha256 is not null;
