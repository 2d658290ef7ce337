-- Upstreams: other Composer repositories whose packages a repository offers through its own URL.

create table upstream (
  id                 bigint generated always as identity primary key,
  repository_id      bigint not null references repository (id) on delete cascade,
  name               text not null
                     constraint upstream_name_is_well_formed
                     check (name ~ '^[a-z0-9](?:[._-]?[a-z0-9])*$' and char_length(name) <= 64),
  url                text not null
                     constraint upstream_url_is_a_web_address_max_2000_characters
                     check (url ~ '^https?://[^[:space:][:cntrl:]@?#]+$' and char_length(url) <= 2000),
  mode               text not null default 'automatic'
                     constraint upstream_mode_is_automatic_approved_or_off check (mode in ('automatic', 'approved', 'off')),
  allow              text[] not null default '{}',
  deny               text[] not null default '{}',
  exempt             text[] not null default '{}',
  minimum_age_hours  integer not null default 0
                     constraint upstream_minimum_age_0_to_87600_hours check (minimum_age_hours between 0 and 87600),
  position           integer not null
                     constraint upstream_position_1_to_1000 check (position between 1 and 1000),
  root               jsonb,
  root_last_modified text,
  root_checked_at    timestamptz,
  root_failed_at     timestamptz,
  failure            text,
  feed_since         text,
  feed_checked_at    timestamptz,
  created_at         timestamptz not null default now(),
  removed_at         timestamptz,
  feed_from          timestamptz,
  uses_credentials   boolean not null default true
);
create unique index upstream_name_is_taken on upstream (repository_id, name) where removed_at is null;
create index on upstream (repository_id);
comment on column upstream.exempt is 'Patterns of packages to which the minimum age does not apply.';
comment on column upstream.root is 'The parts of its packages.json that svc uses.';
comment on column upstream.removed_at is 'A removed upstream keeps the names it served, so that no other upstream gets them.';
comment on column upstream.feed_from is 'Since when the change feed has been followed without a gap; null while it is not.';
comment on column upstream.uses_credentials is 'Whether requests to it have the credentials of UPSTREAM_AUTH_FILE.';

-- The last response of an upstream about a name, and its time.
create table upstream_document (
  upstream_id    bigint not null references upstream (id) on delete cascade,
  name           text not null,
  is_dev         boolean not null,
  is_found       boolean,
  last_modified  text,
  checked_at     timestamptz,
  is_stale       boolean not null default false,
  failed_at      timestamptz,
  failure        text,
  checking_until timestamptz,
  content        bytea,
  replaces       text[] not null default '{}',
  retry_at       timestamptz,
  dropped        text[] not null default '{}',
  primary key (upstream_id, name, is_dev)
);
alter table upstream_document alter content set storage external;
create index on upstream_document (checked_at) where is_found is false;
comment on column upstream_document.is_found is 'False: the upstream responded that it does not have the name. Null: it never responded.';
comment on column upstream_document.checked_at is 'The time of the last response of the upstream, also of one that nothing has changed.';
comment on column upstream_document.is_stale is 'The change feed named it since.';
comment on column upstream_document.checking_until is 'A process is sending the request: no other one does before this time.';
comment on column upstream_document.content is 'Gzipped JSON: the expanded entries and the other keys, as in the document of the upstream.';
comment on column upstream_document.replaces is 'The vendors of all names that entries replace or provide.';
comment on column upstream_document.retry_at is 'Set by a failure: the time of the next request.';
comment on column upstream_document.dropped is 'Versions that cannot be read, each with the reason.';

-- A name that came, or may come, from an upstream. When an upstream releases a name, its stored archives stay for lock
-- files, and its last rules still apply to them.
create table mirrored_package (
  id             bigint generated always as identity primary key,
  repository_id  bigint not null references repository (id) on delete cascade,
  name           text not null
                 constraint mirrored_name_is_lower_case_vendor_and_package
                 check (name ~ '^[a-z0-9_.-]+/[a-z0-9_.-]+$' and char_length(name) <= 150),
  upstream_id    bigint references upstream (id) on delete cascade,
  first_seen_at  timestamptz,
  approved_at    timestamptz,
  requested_at   timestamptz,
  requester_id   bigint references account (id) on delete set null,
  gone_at        timestamptz,
  description    text not null default '',
  flags          jsonb not null default '[]',
  used_on        date,
  summary        text,
  released_from  bigint references upstream (id) on delete cascade,
  released_flags jsonb not null default '[]',
  constraint mirrored_name_is_taken unique (repository_id, name)
);
create index on mirrored_package (upstream_id);
create index on mirrored_package (released_from) where released_from is not null;
comment on column mirrored_package.upstream_id is 'The upstream that the name is bound to; null until one has served it.';
comment on column mirrored_package.gone_at is 'When the upstream stopped serving the name. Fetched documents and archives stay.';
comment on column mirrored_package.flags is 'Versions that the upstream flags as malware: {constraint, reason}.';
comment on column mirrored_package.summary is 'From the filter summary of its upstream; null when it does not name the package.';
comment on column mirrored_package.released_from is 'The removed upstream that released the name. It counts only while the name is not bound.';
comment on column mirrored_package.released_flags is 'Versions that this upstream flagged as malware, like flags.';

-- p2 documents of mirrored packages, as served.
create table mirrored_document (
  package_id    bigint not null references mirrored_package (id) on delete cascade,
  is_dev        boolean not null,
  revision      bigint not null default nextval('document_revision'),
  last_modified timestamptz(0) not null,
  base_url      text not null,
  due_at        timestamptz not null,
  plain         bytea not null,
  gzip          bytea not null,
  brotli        bytea not null,
  primary key (package_id, is_dev)
);
alter table mirrored_document
  alter plain set storage external, alter gzip set storage external, alter brotli set storage external;
create index on mirrored_document (due_at);
comment on column mirrored_document.due_at is 'When it must be rendered again: a version has the minimum age then, or a rule has changed.';

-- Archives that documents of upstreams have named. Rows stay, for old lock files.
create table mirrored_archive (
  id             bigint generated always as identity primary key,
  package_id     bigint not null references mirrored_package (id) on delete cascade,
  version_path   text not null,
  reference      text not null,
  version        text not null,
  normalized     text not null,
  type           text not null,
  url            text not null,
  shasum         text,
  first_seen_at  timestamptz not null default now(),
  sha256         bytea references archive (sha256),
  is_stored      boolean not null default false,
  fetched_at     timestamptz,
  fetching_until timestamptz,
  used_on        date,
  was_downloaded boolean not null default false,
  alarm          text,
  alarmed_at     timestamptz,
  upstream_id    bigint,
  constraint mirrored_archive_is_known unique (package_id, version_path, reference)
);
create index on mirrored_archive (sha256);
comment on column mirrored_archive.version_path is 'The version as in the URL of svc.';
comment on column mirrored_archive.reference is 'As in the URL of svc: the upstream''s reference if it is hexadecimal, else a hash of its URL.';
comment on column mirrored_archive.sha256 is 'Set by the first fetch. Other bytes later are an alarm, never an update.';
comment on column mirrored_archive.is_stored is 'Whether the archive store keeps the bytes.';
comment on column mirrored_archive.upstream_id is 'The upstream that named the URL. Null in rows of earlier releases.';

-- Versions without an archive and without a publication time, and when svc first saw them: the minimum age starts then.
create table mirrored_metapackage (
  package_id    bigint not null references mirrored_package (id) on delete cascade,
  normalized    text not null,
  first_seen_at timestamptz not null default now(),
  primary key (package_id, normalized)
);

-- The summaries of malware of upstreams, with names that are not bound yet. The first binding of a name applies its entry.
create table upstream_flag (
  upstream_id bigint not null references upstream (id) on delete cascade,
  name        text not null,
  constraints text not null,
  primary key (upstream_id, name)
);
comment on column upstream_flag.constraints is 'The versions that the summary flags, as one constraint.';
create trigger new_package_is_flagged after insert on mirrored_package
  for each row when (new.upstream_id is not null) execute function flag_bound_package();
create trigger bound_package_is_flagged after update of upstream_id on mirrored_package
  for each row when (old.upstream_id is null and new.upstream_id is not null) execute function flag_bound_package();
