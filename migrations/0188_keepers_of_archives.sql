-- How many uploads are keeping an archive, so that a purge removes no file that one of them needs. An upload that a crash
-- interrupted counts for a day.
alter table stored_archive add column keepers integer not null default 0 constraint keepers_are_counted check (keepers >= 0);
alter table stored_archive add column last_kept_at timestamptz not null default '-infinity';
comment on column stored_archive.keepers is 'Uploads that keep the archive, and have not committed their reference to it.';
comment on column stored_archive.last_kept_at is 'When the last of them began.';
