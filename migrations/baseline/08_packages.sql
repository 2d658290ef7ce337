-- Packages, their versions and archives, and what is known about them.

-- The archive store keeps the bytes of the zips, named by their SHA-256.
create table archive (
  sha256      bytea primary key constraint archive_sha256_has_32_bytes check (octet_length(sha256) = 32),
  sha1        bytea not null constraint archive_sha1_has_20_bytes check (octet_length(sha1) = 20),
  size        bigint not null constraint archive_is_not_empty check (size > 0),
  received_at timestamptz not null default now()
);

-- Every push updates a row. Where its page has room, no index is touched.
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
  deleted_at    timestamptz,
  constraint package_name_is_taken unique (repository_id, name)
) with (fillfactor = 80);
create index on package using gin (provides);
-- Requirements link to packages of all repositories that the reader may see.
create index package_by_plain_name on package (name);
-- For lists by name, which are in byte order, and for the vendors of a repository.
create index package_by_name on package (repository_id, name collate "C");
-- A search reads the shortest names first: they are the best matches. The second index is for the whole site.
create index package_by_length on package (repository_id, char_length(name), name collate "C");
create index package_of_site_by_length on package (char_length(name), name collate "C");
comment on table package is 'A name, once published, stays claimed: a row is never removed while its repository stands.';
comment on column package.description is 'Like type, keywords and provides: as its newest listed version says, for searches.';
comment on column package.deleted_at is
  'When it was last deleted as a whole: the versions deleted at that very moment come back with it. Null once restored.';

-- The search keys of a package, as integers. The highest byte is the kind: 0 is three bytes in a row of its texts,
-- 1 three and 2 two bytes in a row of its name, 3 its type. A plain array needs no extension, so it works on every
-- PostgreSQL. An index is built from this function, so it is here and not in functions/, and never changes. Its twin is
-- `gramsOf` in src/.
create function search_grams(name text, description text, keywords text[], type text) returns integer[]
language plpgsql immutable parallel safe cost 10000 as $$
declare
  names bytea := convert_to(name, 'UTF8');
  texts bytea := convert_to(lower(left(name || ' ' || description, 2000) || ' '
                                  || left(array_to_string(keywords, ' '), 2000)), 'UTF8');
  hash  bytea := sha256(convert_to(type, 'UTF8'));
begin
  return array(
    select (get_byte(texts, i) << 16) | (get_byte(texts, i + 1) << 8) | get_byte(texts, i + 2)
      from generate_series(0, octet_length(texts) - 3) as i
    union all
    select (1 << 24) | (get_byte(names, i) << 16) | (get_byte(names, i + 1) << 8) | get_byte(names, i + 2)
      from generate_series(0, octet_length(names) - 3) as i
    union all
    select (2 << 24) | (get_byte(names, i) << 8) | get_byte(names, i + 1)
      from generate_series(0, octet_length(names) - 2) as i
    union all
    select (3 << 24) | (get_byte(hash, 0) << 16) | (get_byte(hash, 1) << 8) | get_byte(hash, 2));
end
$$;
create index package_search on package using gin (search_grams(name, description, keywords, type));
-- Statistics of it would cost every ANALYZE seconds, and no plan needs them.
alter index package_search alter column 1 set statistics 0;

create table package_version (
  id                bigint generated always as identity primary key,
  package_id        bigint not null references package (id) on delete cascade,
  version           text not null,
  composer          text not null,
  normalized        text not null,
  is_dev            boolean not null,
  sort_key          text collate "C" not null,
  metadata          json not null,
  sha256            bytea not null references archive (sha256),
  uploader_id       bigint,
  published_at      timestamptz not null default now(),
  deleted_at        timestamptz,
  purged_at         timestamptz constraint only_a_deleted_version_is_purged
                    check (purged_at is null or deleted_at is not null),
  quarantined_at    timestamptz,
  quarantine_reason text
                    constraint only_a_quarantined_version_has_a_reason
                    check (quarantine_reason is null or quarantined_at is not null)
                    constraint quarantine_reason_1_to_500_characters
                    check (char_length(quarantine_reason) between 1 and 500),
  is_listed         boolean not null generated always as (deleted_at is null and quarantined_at is null) stored,
  difference        text,
  deploy_token_id   bigint,
  constraint version_is_taken unique (package_id, normalized)
);
-- Not validated, in every database alike: older reasons were cleaned.
alter table package_version
  add constraint quarantine_reason_is_plain_text check (is_plain_text(quarantine_reason)) not valid;
create index on package_version (sha256);
create index listed_versions on package_version (package_id, is_dev, sort_key, published_at, id) where is_listed;
create index quarantined_versions on package_version (package_id) where quarantined_at is not null;
-- The pages of a package read its versions in the order of the lists, and one by its name.
create index version_order on package_version (package_id, (not is_dev), sort_key, published_at, id);
create index version_of_package on package_version (package_id, version);
comment on column package_version.version is 'As in the URL of the upload: SemVer 2.0.0 (SPEC 9).';
comment on column package_version.composer is 'What Composer knows it by: the version, or dev-<version> where Composer cannot parse it.';
comment on column package_version.normalized is 'Composer''s normalised form. Taken for ever, also by a deleted version.';
comment on column package_version.sort_key is 'Orders versions as Composer does, as plain bytes.';
comment on column package_version.metadata is 'The part of the p2 entry that composer.json says.';
comment on column package_version.uploader_id is
  'The account that published it. Not a foreign key, so that it outlives the account; ids are never used again.';
comment on column package_version.difference is 'The p2 entry, minified against the next newer listed version; null while not listed.';
comment on column package_version.deploy_token_id is 'The deploy token that published it; null for any other token.';

-- The README of each version, as its package's page shows it. It is rendered when the version is published.
create table version_readme (
  version_id bigint primary key references package_version (id) on delete cascade,
  format     text not null constraint readme_format_is_html_text_or_none check (format in ('html', 'text', 'none')),
  content    text not null constraint readme_max_512_kib check (octet_length(content) <= 524288),
  rendering  smallint not null default 0
);
create index old_readmes on version_readme (version_id) where rendering < 1;
comment on table version_readme is
  'A version of an earlier release has no row until its page is first opened; one without a README has the format none.';
comment on column version_readme.rendering is
  'Which rendering the content comes from. An earlier release writes 0: the page of the version, or the job render-readmes, then renders it again.';

create table package_dependency (
  target        text not null,
  repository_id bigint not null,
  package_id    bigint not null references package (id) on delete cascade,
  is_dev        boolean not null,
  requirement   text not null,
  primary key (target, repository_id, package_id, is_dev)
);
create index on package_dependency (package_id);
comment on table package_dependency is
  'Requirements of latest versions, without platform packages such as php. The job list-dependencies writes those of packages that are older than this table.';
comment on column package_dependency.repository_id is
  'That of the package: a list for one reader looks only at the repositories that the reader may see.';
create trigger package_notes_its_dependencies after update of description on package
  for each row execute function note_dependencies();

-- Vendors whose names come from this group alone.
create table vendor_claim (
  group_id   bigint not null references repository_group (id) on delete cascade,
  vendor     text not null
             constraint vendor_is_lower_case_max_100_characters check (vendor ~ '^[a-z0-9_.-]+$' and char_length(vendor) <= 150),
  exceptions text[] not null default '{}',
  by_hand    boolean not null default false,
  claimed_at timestamptz not null default now(),
  primary key (group_id, vendor)
);
comment on column vendor_claim.exceptions is 'Patterns of names that upstreams may serve nevertheless.';
create trigger package_claims_its_vendor after insert on package
  for each row execute function claim_vendor_of_package();

create table advisory (
  id                bigint generated always as identity primary key,
  advisory_id       text not null,
  package_id        bigint not null references package (id) on delete cascade,
  title             text not null
                    constraint advisory_title_1_to_255_characters check (char_length(title) between 1 and 255)
                    constraint advisory_title_is_plain_text check (is_plain_text(title)),
  affected_versions text not null
                    constraint advisory_affected_versions_max_4096_characters check (char_length(affected_versions) <= 4096)
                    constraint advisory_affected_versions_is_plain_text check (is_plain_text(affected_versions)),
  cve               text constraint advisory_cve_is_well_formed check (cve ~ '^CVE-[0-9]{4}-[0-9]{4,19}$'),
  link              text constraint advisory_link_is_a_web_address check (link ~ '^https?://[!-~]+$' and char_length(link) <= 2000),
  severity          text constraint advisory_severity_is_low_medium_high_or_critical
                    check (severity in ('low', 'medium', 'high', 'critical')),
  reported_at       timestamptz not null default now(),
  withdrawn_at      timestamptz,
  constraint advisory_id_is_taken unique (advisory_id)
);
create index on advisory (package_id);

-- Archives that were uploaded in the browser and are not published yet.
create table browser_upload (
  id            uuid primary key default gen_random_uuid(),
  account_id    bigint not null references account (id) on delete cascade,
  repository_id bigint not null references repository (id) on delete cascade,
  file_name     text not null constraint upload_file_name_max_200_characters check (char_length(file_name) <= 200),
  sha256        bytea not null constraint upload_sha256_has_32_bytes check (octet_length(sha256) = 32),
  size          bigint not null constraint upload_is_not_empty check (size > 0),
  created_at    timestamptz not null default now(),
  expires_at    timestamptz not null default now() + interval '12 hours',
  discarded_at  timestamptz
);
create index on browser_upload (account_id);
create index on browser_upload (repository_id);
create index on browser_upload (expires_at);
comment on table browser_upload is
  'The archive store keeps the bytes. Nothing refers to archive: a collection leaves files alone that were stored within a day, which is longer than an upload lives.';
comment on column browser_upload.discarded_at is
  'A discarded upload still counts for the bytes of its account, because its file stays until a collection.';
