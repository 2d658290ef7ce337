-- Git sources: tags of a Git repository become versions of a repository, and branches development versions.
create table source (
  id                    bigint generated always as identity primary key,
  repository_id         bigint not null references repository (id) on delete cascade,
  url                   text not null constraint source_url_max_500_characters check (char_length(url) <= 500),
  path                  text not null default ''
                        constraint source_path_max_300_characters check (char_length(path) <= 300),
  tags                  text not null constraint source_tags_max_200_characters check (char_length(tags) <= 200),
  branches              text not null constraint source_branches_max_200_characters check (char_length(branches) <= 200),
  every_minutes         integer not null
                        constraint source_every_1_to_10080_minutes check (every_minutes between 1 and 10080),
  hides_source          boolean not null,
  reaches_private_hosts boolean not null,
  key_id                bytea constraint source_key_id_has_8_bytes check (octet_length(key_id) = 8),
  sealed_secrets        bytea constraint source_secrets_max_32_kib check (octet_length(sealed_secrets) <= 32768),
  host_keys             text not null constraint source_host_keys_max_16_kib check (octet_length(host_keys) <= 16384),
  made_by               bigint,
  created_at            timestamptz not null default now(),
  removed_at            timestamptz,
  next_look_at          timestamptz not null default now(),
  looked_at             timestamptz,
  failure               text,
  failing_since         timestamptz,
  constraint only_a_removed_source_has_no_secrets
    check ((removed_at is not null) = (sealed_secrets is null) and (sealed_secrets is null) = (key_id is null)),
  constraint only_a_failing_source_has_a_failure check ((failure is null) = (failing_since is null))
);
create unique index source_is_there on source (repository_id, url, path) where removed_at is null;
create index source_of_repository on source (repository_id, id) where removed_at is null;
create index source_to_look_at on source (next_look_at) where removed_at is null;
comment on column source.path is 'The folder of the package in the Git repository. Empty for the root.';
comment on column source.tags is 'The pattern of the tags. Empty for none.';
comment on column source.reaches_private_hosts is
  'Whether the Git repository may be on a host of OUTBOUND_PRIVATE_HOSTS: an operator added the source.';
comment on column source.sealed_secrets is
  'AES-256-GCM: 12 bytes nonce, ciphertext, 16 bytes tag. JSON with the secret of hooks, and the login or the SSH key.';
comment on column source.host_keys is 'The pinned keys of an SSH server, as lines of known_hosts. Empty for https.';
comment on column source.made_by is
  'The account that added it; null for the command line. No foreign key: the source outlives the account.';
comment on column source.removed_at is 'The row stays, because versions and events name it.';
comment on column source.looked_at is 'When it was read last without a failure.';

-- What became of each tag and branch.
create table source_ref (
  source_id    bigint not null references source (id) on delete cascade,
  kind         text not null constraint source_ref_is_tag_or_branch check (kind in ('tag', 'branch')),
  name         text not null constraint source_ref_name_max_1000_characters check (char_length(name) <= 1000),
  state        text not null constraint source_ref_state_is_known
               check (state in ('published', 'staged', 'skipped', 'refused', 'moved', 'gone')),
  reason       text constraint source_ref_reason_max_1000_characters check (char_length(reason) <= 1000),
  warnings     text[] not null default '{}',
  commit_id    text,
  seen_commit  text,
  tree         text,
  is_default   boolean not null default false,
  package_name text,
  version      text,
  changed_at   timestamptz not null default now(),
  primary key (source_id, kind, name)
);
comment on column source_ref.reason is 'Why it is no version, or not the one of its commit.';
comment on column source_ref.commit_id is 'The commit of the published or staged version. Null when there is none.';
comment on column source_ref.seen_commit is 'The commit that was judged last.';
comment on column source_ref.tree is 'The tree of the folder at commit_id.';
comment on column source_ref.is_default is 'Whether the version is marked as the default branch.';

-- The packages of a source: no other source publishes them.
create table source_package (
  repository_id bigint not null references repository (id) on delete cascade,
  package_name  text not null,
  source_id     bigint not null references source (id) on delete cascade,
  primary key (repository_id, package_name)
);
create index on source_package (source_id);

alter table event drop constraint event_token_kind_is_known;
alter table event add constraint event_token_kind_is_known
  check (token_kind in ('access', 'personal', 'deploy', 'publisher', 'source')) not valid;
