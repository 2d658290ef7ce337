-- Groups, repositories and their members (DESIGN §1).
create type member_role as enum ('guest', 'developer', 'admin');
comment on type member_role is 'Ordered: a guest pulls, a developer also pushes, an admin also deletes and manages.';
create type repository_visibility as enum ('private', 'public');

-- "group" is a reserved word of SQL.
create table repository_group (
  id         bigint generated always as identity primary key,
  name       text not null
             constraint group_name_is_well_formed
             check (name ~ '^[a-z0-9](?:[._-]?[a-z0-9])*$' and char_length(name) <= 64)
             constraint group_name_is_not_the_first_segment_of_another_url
             check (name not in ('-', 'api', 'applications', 'assets', 'favicon.ico', 'healthz', 'login', 'logout',
                                 'metrics', 'oauth2', 'readyz', 'robots.txt', 'settings')),
  created_at timestamptz not null default now(),
  constraint group_name_is_taken unique (name)
);

create table group_member (
  group_id   bigint not null references repository_group (id) on delete cascade,
  account_id bigint not null references account (id) on delete cascade,
  role       member_role not null,
  primary key (group_id, account_id)
);
create index on group_member (account_id);

create table repository (
  id          bigint generated always as identity primary key,
  group_id    bigint not null references repository_group (id) on delete cascade,
  name        text not null
              constraint repository_name_is_well_formed
              check (name ~ '^[a-z0-9](?:[._-]?[a-z0-9])*$' and char_length(name) <= 100),
  visibility  repository_visibility not null default 'private',
  description text not null default ''
              constraint repository_description_max_350_characters check (char_length(description) <= 350),
  created_at  timestamptz not null default now(),
  constraint repository_name_is_taken unique (group_id, name)
);

create table repository_member (
  repository_id bigint not null references repository (id) on delete cascade,
  account_id    bigint not null references account (id) on delete cascade,
  role          member_role not null,
  primary key (repository_id, account_id)
);
create index on repository_member (account_id);

-- The stronger of the group's and the repository's role counts; null when the account has neither. One row always:
-- as a function in `from` it becomes a part of the statement that calls it.
create function account_role(the_account_id bigint, the_repository_id bigint) returns table (role member_role)
language sql stable parallel safe as $$
  select greatest(
    (select 'admin'::member_role from account where id = the_account_id and is_admin),
    (select m.role from repository_member m where m.repository_id = the_repository_id and m.account_id = the_account_id),
    (select m.role from group_member m join repository r on r.group_id = m.group_id
      where r.id = the_repository_id and m.account_id = the_account_id))
$$;

-- The same as a value, where it is not called often.
create function role_of(the_account_id bigint, the_repository_id bigint) returns member_role
language sql stable parallel safe as $$
  select role from account_role(the_account_id, the_repository_id)
$$;
