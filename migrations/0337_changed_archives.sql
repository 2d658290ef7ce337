-- The archives that have changed at their upstream. They are few, of many.
create index concurrently if not exists mirrored_archive_changed on mirrored_archive (package_id) where alarm is not null;
