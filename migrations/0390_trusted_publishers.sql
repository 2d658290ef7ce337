-- Trusted publishers: CI jobs that get a token of a repository for the identity token of their CI, without a secret.
create table trusted_publisher (
  id                    bigint generated always as identity primary key,
  repository_id         bigint not null references repository (id) on delete cascade,
  provider              text not null
                        constraint publisher_provider_is_known check (provider in ('github', 'gitlab', 'forgejo', 'claims')),
  issuer                text not null constraint publisher_issuer_max_500_characters check (char_length(issuer) <= 500),
  project               text constraint publisher_project_max_300_characters check (char_length(project) <= 300),
  workflow              text constraint publisher_workflow_max_300_characters check (char_length(workflow) <= 300),
  environment           text constraint publisher_environment_max_255_characters check (char_length(environment) <= 255),
  workflow_project      text constraint publisher_workflow_project_max_300_characters
                        check (char_length(workflow_project) <= 300),
  claims                jsonb not null default '[]',
  packages              text[] not null,
  token_right           text not null
                        constraint publisher_right_is_known check (token_right in ('publish', 'stage', 'read')),
  reaches_private_hosts boolean not null,
  pins                  jsonb not null default '{}',
  made_by               bigint,
  created_at            timestamptz not null default now(),
  removed_at            timestamptz,
  last_exchange         jsonb,
  refusal_noted_at      timestamptz,
  constraint publisher_has_a_project_or_claims check ((project is null) = (provider = 'claims'))
);
create index trusted_publisher_of_repository on trusted_publisher (repository_id, id) where removed_at is null;
create index trusted_publisher_of_issuer on trusted_publisher (issuer) where removed_at is null;
comment on column trusted_publisher.issuer is 'Compared exactly with `iss` of an identity token.';
comment on column trusted_publisher.claims is 'More conditions, in their order: [{"name", "value"}]. `*` matches within a value.';
comment on column trusted_publisher.packages is 'Patterns of the packages that its tokens are for.';
comment on column trusted_publisher.reaches_private_hosts is
  'Whether the keys of the issuer may come from a host of OUTBOUND_PRIVATE_HOSTS: an operator added the publisher.';
comment on column trusted_publisher.pins is 'The ids of the project at the first exchange. Another project of the same name has others.';
comment on column trusted_publisher.made_by is
  'The account that added it; null for the command line. No foreign key: the publisher outlives the account.';
comment on column trusted_publisher.removed_at is 'The row stays, because versions and events name it.';
comment on column trusted_publisher.last_exchange is 'The result of the last exchange, with the claims that differed.';
comment on column trusted_publisher.refusal_noted_at is 'When the last event of a refused exchange was written: one an hour.';

create table publisher_token (
  id            bigint generated always as identity primary key,
  token_hash    bytea not null unique check (octet_length(token_hash) = 32),
  repository_id bigint not null references repository (id) on delete cascade,
  publisher_id  bigint not null references trusted_publisher (id) on delete cascade,
  publisher_ids bigint[] not null,
  rights        jsonb not null,
  role          member_role not null constraint publisher_token_role_is_guest_or_developer check (role <> 'admin'),
  scopes        text[] not null,
  run           jsonb not null,
  created_at    timestamptz not null default now(),
  expires_at    timestamptz not null
);
create index on publisher_token (repository_id);
create index on publisher_token (publisher_id);
create index on publisher_token (expires_at);
comment on table publisher_token is 'A row is deleted when one of its publishers is removed, and when its holder revokes it.';
comment on column publisher_token.publisher_id is 'The publisher that events and versions name: the first one with the strongest right.';
comment on column publisher_token.publisher_ids is 'All publishers that matched.';
comment on column publisher_token.rights is 'Each right with the patterns of the packages that it is for: [{"right", "packages"}].';
comment on column publisher_token.run is 'The CI job that got it: provider, project, workflow, ref, commit and url.';

-- Identity tokens that were exchanged. Each is exchanged once.
create table used_identity_token (
  key_hash   bytea primary key check (octet_length(key_hash) = 32),
  expires_at timestamptz not null
);
create index on used_identity_token (expires_at);
comment on column used_identity_token.key_hash is 'SHA-256 of issuer and `jti`, or of the whole token if it has no `jti`.';

alter table event drop constraint event_token_kind_is_known;
alter table event add constraint event_token_kind_is_known
  check (token_kind in ('access', 'personal', 'deploy', 'publisher')) not valid;
alter table recorded_download drop constraint recorded_download_kind_check;
alter table recorded_download add constraint recorded_download_kind_check
  check (kind in ('anonymous', 'session', 'personal', 'deploy', 'access', 'publisher')) not valid;
