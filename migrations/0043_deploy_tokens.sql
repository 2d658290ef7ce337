-- Deploy tokens (DESIGN §1): tokens of a group, for build servers. They belong to no person, so they keep working when
-- the account that made them is disabled or deleted.
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

-- Not validated: the table may be large, and the older rule was stricter.
alter table registry_event drop constraint registry_event_token_kind_check;
alter table registry_event add constraint registry_event_token_kind_check
  check (token_kind in ('access', 'personal', 'deploy')) not valid;

-- The definition is in functions/.
create function note_deploy_token_event() returns trigger language plpgsql as 'begin return null; end';
create trigger identity_event_of_deploy_token after insert or update of revoked_at on deploy_token
  for each row execute function note_deploy_token_event();

-- The first use of a token. Uses are written together and later, so the event has no client IP.
create trigger identity_event_of_first_use after update of last_used_at on personal_token
  for each row when (old.last_used_at is null and new.last_used_at is not null)
  execute function note_personal_token_event();
create trigger identity_event_of_first_use after update of last_used_at on deploy_token
  for each row when (old.last_used_at is null and new.last_used_at is not null)
  execute function note_deploy_token_event();
