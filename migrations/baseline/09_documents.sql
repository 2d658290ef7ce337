-- Documents that Composer reads, as served.

-- A document is never sent again with a time that it had before: last_modified only grows.
create sequence document_revision;

create table package_document (
  package_id    bigint not null references package (id) on delete cascade,
  is_dev        boolean not null,
  revision      bigint not null default nextval('document_revision'),
  last_modified timestamptz(0) not null,
  base_url      text not null,
  plain         bytea not null,
  gzip          bytea not null,
  brotli        bytea not null,
  format        integer not null default 1,
  repository_id bigint,
  primary key (package_id, is_dev)
);
alter table package_document
  alter plain set storage external, alter gzip set storage external, alter brotli set storage external;
create index document_changes on package_document (repository_id, last_modified);
comment on table package_document is 'p2/<name>.json and p2/<name>~dev.json, as served.';
comment on column package_document.base_url is 'The address its links were built from: rendered anew when that changes.';
comment on column package_document.format is 'A release that writes a later format renders the document again.';
comment on column package_document.repository_id is 'The package''s repository: set by a trigger, for lists of changes.';
create trigger document_has_a_repository before insert on package_document
  for each row execute function set_repository_of_document();

create table root_document (
  repository_id bigint primary key references repository (id) on delete cascade,
  revision      bigint not null default nextval('document_revision'),
  last_modified timestamptz(0) not null,
  base_url      text not null,
  plain         bytea not null,
  gzip          bytea not null,
  brotli        bytea not null,
  format        integer not null default 1
);
alter table root_document
  alter plain set storage external, alter gzip set storage external, alter brotli set storage external;
comment on table root_document is 'packages.json, as served; a repository without packages has none.';
comment on column root_document.format is 'A release that writes a later format renders the document again.';

-- packages.json is rendered when it is read, not by every push of a new name.
create table repository_listing (
  repository_id bigint primary key references repository (id) on delete cascade,
  revision      bigint not null default nextval('document_revision')
) with (fillfactor = 50);
comment on table repository_listing is
  'The last change of the content of packages.json. The stored root_document is current when its revision is not lower.';

-- The versions of a repository in quarantine, as one document for its clients.
create table filter_document (
  repository_id bigint primary key references repository (id) on delete cascade,
  revision      bigint not null default nextval('document_revision'),
  last_modified timestamptz(0) not null,
  plain         bytea not null
);
comment on table filter_document is 'filter.json, as served; a repository that never had a quarantine has none.';
create trigger quarantine_is_set after insert on package_version
  for each row when (new.quarantined_at is not null) execute function note_quarantine();
create trigger quarantine_changes after update of quarantined_at on package_version
  for each row when (old.quarantined_at is distinct from new.quarantined_at) execute function note_quarantine();
