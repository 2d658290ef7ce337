-- Codes and token pairs of applications, personal access tokens of accounts, and deploy tokens of groups.

create table authorization_code (
  code_hash        bytea primary key check (octet_length(code_hash) = 32),
  authorization_id bigint not null references account_authorization (id) on delete cascade,
  redirect_uri     text not null,
  scopes           text[] not null,
  code_challenge   text,
  created_at       timestamptz not null default now(),
  expires_at       timestamptz not null,
  redeemed_at      timestamptz,
  grant_id         bigint
) with (fillfactor = 70);
create index on authorization_code (authorization_id);
create index on authorization_code (expires_at);
comment on column authorization_code.redirect_uri is 'The one the browser was sent to: a redirect_uri in the token request must equal it (SPEC 4.2).';
comment on column authorization_code.grant_id is
  'Null in a row of the previous release: the first grant. No foreign key: codes are deleted with their authorization.';

-- A refresh updates the pair in its page (HOT): no index has a column that it changes, and pages keep room for it.
-- Foreign keys would lock the grant and the code at every insert. They are not needed: a pair without a grant is dead,
-- and the sweep removes it when it has expired.
create table token_pair (
  id                 bigint generated always as identity primary key,
  authorization_id   bigint not null,
  code_hash          bytea,
  access_hash        bytea not null unique check (octet_length(access_hash) = 32),
  access_scopes      text[],
  access_expires_at  timestamptz not null,
  refresh_hash       bytea not null unique check (octet_length(refresh_hash) = 32),
  refresh_scopes     text[],
  refresh_expires_at timestamptz not null,
  superseded_at      timestamptz,
  successor_id       bigint,
  sealed_successor   bytea,
  created_at         timestamptz not null default now(),
  grant_id           bigint,
  epoch              integer not null default 0,
  predecessor_id     bigint,
  unnoted_exchange   text
) with (fillfactor = 50);
comment on column token_pair.access_scopes is 'Null: those of the refresh token.';
comment on column token_pair.refresh_scopes is 'Null: all of the grant.';
comment on column token_pair.superseded_at is 'First use of the refresh token: the pair then works for the grace period and no longer (SPEC §3).';
comment on column token_pair.sealed_successor is 'The new pair, encrypted under a key that only the holder of this refresh token can derive; wiped when the grace ends.';
comment on column token_pair.grant_id is 'Null in a row of the previous release: the first grant of the authorization.';
comment on column token_pair.epoch is 'Of the grant when the first pair of this line was made: the pair is dead when they differ.';
comment on column token_pair.predecessor_id is 'The pair that this one superseded.';
comment on column token_pair.unnoted_exchange is
  'Of the first pair of a code, until its identity event is written: JSON of the account, the application and who sent the request.';

-- Where sweeps continue. Each reads its table in the order of the rows, so that it needs no index. The job that writes the
-- events of exchanges reads pairs up to horizon_id when all transactions before horizon_xid have ended.
create table sweep_position (
  name        text primary key,
  pair_id     bigint not null default 0,
  reached_at  timestamptz not null default '-infinity',
  horizon_id  bigint not null default 0,
  horizon_xid bigint not null default 0
);
insert into sweep_position (name)
values ('sealed_pairs'), ('expired_pairs'), ('remaining_pairs'), ('unused_codes'), ('noted_exchanges');

create table personal_token (
  id              bigint generated always as identity primary key,
  account_id      bigint not null references account (id) on delete cascade,
  name            text not null
                  constraint personal_token_name_1_to_100_characters check (char_length(name) between 1 and 100 and btrim(name) <> '')
                  constraint personal_token_name_is_plain_text check (is_plain_text(name)),
  token_hash      bytea not null unique check (octet_length(token_hash) = 32),
  scopes          text[] not null constraint personal_token_scopes_are_predefined check (are_scopes(scopes)),
  resource_scope  resource_scope not null,
  created_at      timestamptz not null default now(),
  expires_at      timestamptz not null,
  last_used_at    timestamptz,
  revoked_at      timestamptz,
  expiry_noted_at timestamptz
);
create unique index personal_token_name_is_taken on personal_token (account_id, name) where revoked_at is null;
comment on column personal_token.expires_at is 'infinity when it was knowingly made without an end.';
comment on column personal_token.expiry_noted_at is 'When its owner was told by mail that it expires soon.';

create table personal_token_repository (
  personal_token_id bigint not null references personal_token (id) on delete cascade,
  repository_id     bigint not null references repository (id) on delete cascade,
  primary key (personal_token_id, repository_id)
);
create index on personal_token_repository (repository_id);

-- Deploy tokens are for build servers. They belong to no person, so they keep working when the account that made them is
-- disabled or deleted.
create table deploy_token (
  id             bigint generated always as identity primary key,
  group_id       bigint not null references repository_group (id) on delete cascade,
  name           text not null
                 constraint deploy_token_name_1_to_100_characters
                 check (char_length(name) between 1 and 100 and btrim(name) <> '')
                 constraint deploy_token_name_is_plain_text check (is_plain_text(name)),
  token_hash     bytea not null unique check (octet_length(token_hash) = 32),
  role           member_role not null
                 constraint deploy_token_role_is_guest_or_developer check (role <> 'admin'),
  scopes         text[] not null constraint deploy_token_scopes_are_predefined check (are_scopes(scopes)),
  resource_scope resource_scope not null
                 constraint deploy_token_is_for_all_or_specified_repositories check (resource_scope <> 'public'),
  made_by        bigint,
  created_at     timestamptz not null default now(),
  expires_at     timestamptz not null,
  last_used_at   timestamptz,
  revoked_at     timestamptz
);
create index on deploy_token (group_id, id);
create unique index deploy_token_name_is_taken on deploy_token (group_id, name) where revoked_at is null;
comment on column deploy_token.role is 'The role of the token in the repositories of its group.';
comment on column deploy_token.resource_scope is 'all: every repository of the group, later ones included.';
comment on column deploy_token.made_by is
  'The account that made it; null for the command line. No foreign key: the token outlives the account.';

create table deploy_token_repository (
  deploy_token_id bigint not null references deploy_token (id) on delete cascade,
  repository_id   bigint not null references repository (id) on delete cascade,
  primary key (deploy_token_id, repository_id)
);
create index on deploy_token_repository (repository_id);
