-- The lifecycle of what is published (DESIGN §7): deletion of a package as a whole, quarantine, purge, advisories.
alter table package add column deleted_at timestamptz;
comment on column package.deleted_at is
  'When it was last deleted as a whole: the versions deleted at that very moment come back with it. Null once restored.';

-- Asked for at every change of a quarantine, and for the documents of a package that has one.
create index quarantined_versions on package_version (package_id) where quarantined_at is not null;

alter table package_version
  add constraint quarantine_reason_1_to_500_characters check (char_length(quarantine_reason) between 1 and 500);
