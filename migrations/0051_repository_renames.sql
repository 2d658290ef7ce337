-- Former names of repositories: the registry serves them like the current one, because lock files contain URLs of
-- archives, and pages redirect. Nobody else gets such a name (DESIGN §4).
create table repository_alias (
  group_id      bigint not null references repository_group (id) on delete cascade,
  name          text not null,
  repository_id bigint not null references repository (id) on delete cascade,
  created_at    timestamptz not null default now(),
  primary key (group_id, name)
);
create index on repository_alias (repository_id);

-- Trigger function: checked after the row is written, when a rename that ran at the same time can be seen. The
-- definition is in functions/.
create function refuse_reserved_repository_name() returns trigger language plpgsql as 'begin return null; end';
create trigger repository_name_is_not_reserved after insert or update of name on repository
  for each row execute function refuse_reserved_repository_name();
