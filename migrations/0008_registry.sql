-- Packages, versions, archives and the documents that Composer reads (SPEC 2.5, 4.4, 4.5, DESIGN §7).

-- The zips' bytes lie on the archive volume, named by their SHA-256.
create table archive (
  sha256      bytea primary key constraint archive_sha256_has_32_bytes check (octet_length(sha256) = 32),
  sha1        bytea not null constraint archive_sha1_has_20_bytes check (octet_length(sha1) = 20),
  size        bigint not null constraint archive_is_not_empty check (size > 0),
  received_at timestamptz not null default now()
);

create table package (
  id            bigint generated always as identity primary key,
  repository_id bigint not null references repository (id) on delete cascade,
  name          text not null
                constraint package_name_is_lower_case_vendor_and_package
                check (name ~ '^[a-z0-9_.-]+/[a-z0-9_.-]+$' and char_length(name) <= 150),
  description   text not null default '',
  type          text not null default 'library',
  keywords      text[] not null default '{}',
  provides      text[] not null default '{}',
  abandoned_at  timestamptz,
  replacement   text constraint only_an_abandoned_package_has_a_replacement
                check (replacement is null or abandoned_at is not null),
  created_at    timestamptz not null default now(),
  constraint package_name_is_taken unique (repository_id, name)
);
create index on package using gin (provides);
comment on table package is 'A name, once published, stays claimed: a row is never removed while its repository stands.';
comment on column package.description is 'Like type, keywords and provides: as its newest listed version says, for searches.';

create table package_version (
  id             bigint generated always as identity primary key,
  package_id     bigint not null references package (id) on delete cascade,
  version        text not null,
  composer       text not null,
  normalized     text not null,
  is_dev         boolean not null,
  sort_key       text collate "C" not null,
  metadata       json not null,
  sha256         bytea not null references archive (sha256),
  uploader_id    bigint references account (id) on delete set null,
  published_at   timestamptz not null default now(),
  deleted_at     timestamptz,
  purged_at      timestamptz constraint only_a_deleted_version_is_purged
                 check (purged_at is null or deleted_at is not null),
  quarantined_at timestamptz,
  quarantine_reason text constraint only_a_quarantined_version_has_a_reason
                 check (quarantine_reason is null or quarantined_at is not null),
  is_listed      boolean not null generated always as (deleted_at is null and quarantined_at is null) stored,
  difference     text,
  constraint version_is_taken unique (package_id, normalized)
);
create index listed_versions on package_version (package_id, is_dev, sort_key, published_at, id) where is_listed;
create index on package_version (sha256);
create index on package_version (uploader_id);
comment on column package_version.version is 'As in the URL of the upload: SemVer 2.0.0 (SPEC 9).';
comment on column package_version.composer is 'What Composer knows it by: the version, or dev-<version> where Composer cannot parse it.';
comment on column package_version.normalized is 'Composer''s normalised form. Taken for ever, also by a deleted version.';
comment on column package_version.sort_key is 'Orders versions as Composer does, as plain bytes.';
comment on column package_version.metadata is 'The part of the p2 entry that composer.json says.';
comment on column package_version.difference is 'The p2 entry, minified against the next newer listed version; null while not listed.';

-- What was served before is never sent under the same time again: last_modified only grows (COMPOSER A5).
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
  primary key (package_id, is_dev)
);
create table root_document (
  repository_id bigint primary key references repository (id) on delete cascade,
  revision      bigint not null default nextval('document_revision'),
  last_modified timestamptz(0) not null,
  base_url      text not null,
  plain         bytea not null,
  gzip          bytea not null,
  brotli        bytea not null
);
alter table package_document
  alter plain set storage external, alter gzip set storage external, alter brotli set storage external;
alter table root_document
  alter plain set storage external, alter gzip set storage external, alter brotli set storage external;
comment on table package_document is 'p2/<name>.json and p2/<name>~dev.json, as served.';
comment on table root_document is 'packages.json, as served; a repository without packages has none.';
comment on column package_document.base_url is 'The address its links were built from: rendered anew when that changes.';

create table package_download (
  version_id bigint not null references package_version (id) on delete cascade,
  day        date not null,
  count      bigint not null,
  primary key (version_id, day)
);

create table advisory (
  id                bigint generated always as identity primary key,
  advisory_id       text not null,
  package_id        bigint not null references package (id) on delete cascade,
  title             text not null constraint advisory_title_1_to_255_characters check (char_length(title) between 1 and 255),
  affected_versions text not null
                    constraint advisory_affected_versions_max_4096_characters check (char_length(affected_versions) <= 4096),
  cve               text constraint advisory_cve_is_well_formed check (cve ~ '^CVE-[0-9]{4}-[0-9]{4,19}$'),
  link              text constraint advisory_link_is_a_web_address check (link ~ '^https?://[!-~]+$' and char_length(link) <= 2000),
  severity          text constraint advisory_severity_is_low_medium_high_or_critical
                    check (severity in ('low', 'medium', 'high', 'critical')),
  reported_at       timestamptz not null default now(),
  withdrawn_at      timestamptz,
  constraint advisory_id_is_taken unique (advisory_id)
);
create index on advisory (package_id);

-- Who did what, with which token, when and from where. It refers to nothing, so that it outlives everything.
create table registry_event (
  id            bigint generated always as identity primary key,
  happened_at   timestamptz not null default now(),
  repository_id bigint not null,
  package       text,
  version       text,
  action        text not null,
  account_id    bigint,
  token_kind    text check (token_kind in ('access', 'personal')),
  token_id      bigint,
  address       inet,
  details       jsonb not null default '{}'
);
create index on registry_event (repository_id, id);
create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'insufficient_privilege';
end
$$;
create trigger registry_event_is_append_only
  before update or delete or truncate on registry_event for each statement execute function refuse_change();

-- One row for every request to a registry: the repository of that path, the live token of that hash, and the role of
-- its account there; each null when there is none. Endpoints join what they read, and so ask once.
create function registry_access(group_name text, repository_name text, presented_hash bytea)
returns table (
  repository_id bigint, visibility repository_visibility, role member_role, token_kind text, token_id bigint,
  account_id bigint, authorization_id bigint, scopes text[], resource_scope resource_scope, repository_ids bigint[]
)
language sql stable parallel safe as $$
  select r.id, r.visibility, own.role, t.kind, t.token_id,
         t.account_id, t.authorization_id, t.scopes, t.resource_scope, t.repository_ids
    from (values (true)) as request (is_one)
    left join (repository_group g join repository r on r.group_id = g.id)
      on g.name = group_name and r.name = repository_name
    left join live_token t on t.token_hash = presented_hash
    left join lateral account_role(t.account_id, r.id) own on true
$$;
