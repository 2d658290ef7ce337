-- Groups, repositories, their members, and invitations.

create type member_role as enum ('guest', 'developer', 'admin');
comment on type member_role is 'Ordered: a guest pulls, a developer also pushes, an admin also deletes and manages.';
create type repository_visibility as enum ('private', 'public');

-- "group" is a reserved word of SQL.
create table repository_group (
  id                     bigint generated always as identity primary key,
  name                   text not null
                         constraint group_name_is_well_formed
                         check (name ~ '^[a-z0-9](?:[._-]?[a-z0-9])*$' and char_length(name) <= 64),
  created_at             timestamptz not null default now(),
  requires_second_factor boolean not null default false,
  constraint group_name_is_taken unique (name)
);
-- Group names that are the first segment of another URL. Not validated, in every database alike: an older group may have
-- such a name, and keeps it until it is renamed.
alter table repository_group add constraint group_name_is_not_the_first_segment_of_another_url
  check (name not in ('-', 'admin', 'api', 'applications', 'assets', 'docs', 'favicon.ico', 'healthz', 'invitations',
                      'login', 'logout', 'metrics', 'new', 'oauth2', 'password-reset', 'readyz', 'robots.txt',
                      'search', 'settings', 'sign-up')) not valid;

create table group_member (
  group_id   bigint not null references repository_group (id) on delete cascade,
  account_id bigint not null references account (id) on delete cascade,
  role       member_role not null,
  primary key (group_id, account_id)
);
create index on group_member (account_id);

-- Memberships of groups that a provider's groups claim made. One that was made or changed by hand has no row, or a row
-- with another role: the provider does not touch it.
create table provider_membership (
  group_id   bigint not null,
  account_id bigint not null,
  issuer     text not null,
  role       member_role not null,
  primary key (group_id, account_id),
  foreign key (group_id, account_id) references group_member (group_id, account_id) on delete cascade
);
create index on provider_membership (account_id);

create table repository (
  id          bigint generated always as identity primary key,
  group_id    bigint not null references repository_group (id) on delete cascade,
  name        text not null
              constraint repository_name_is_well_formed
              check (name ~ '^[a-z0-9](?:[._-]?[a-z0-9])*$' and char_length(name) <= 100),
  visibility  repository_visibility not null default 'private',
  description text not null default ''
              constraint repository_description_max_350_characters check (char_length(description) <= 350)
              constraint repository_description_is_plain_text check (is_plain_text(description)),
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

-- The former name of a group is free for others after 90 days: URLs in composer.json and in CI systems still have it, so a
-- new owner could offer packages under it.
create table reserved_group_name (
  name           text primary key,
  group_id       bigint not null,
  reserved_until timestamptz not null
);
comment on column reserved_group_name.group_id is 'The group that had the name. It may have been deleted.';
create trigger group_name_is_not_reserved after insert or update of name on repository_group
  for each row execute function refuse_reserved_group_name();
create trigger group_name_is_reserved_after_deletion after delete on repository_group
  for each row execute function reserve_group_name();
create trigger group_name_is_reserved_after_rename after update of name on repository_group
  for each row when (old.name <> new.name) execute function reserve_group_name();

-- Former names of repositories: the registry serves them like the current one, because lock files contain URLs of
-- archives, and pages redirect. Nobody else gets such a name.
create table repository_alias (
  group_id      bigint not null references repository_group (id) on delete cascade,
  name          text not null,
  repository_id bigint not null references repository (id) on delete cascade,
  created_at    timestamptz not null default now(),
  primary key (group_id, name)
);
create index on repository_alias (repository_id);
create trigger repository_name_is_not_reserved after insert or update of name on repository
  for each row execute function refuse_reserved_repository_name();

-- Who accepts an invitation makes an account with it, or adds a role in a group to an own account. A sign-up is an
-- invitation that somebody asks for with an email. Only the hash of the token is stored.
create table invitation (
  id              bigint generated always as identity primary key,
  token_hash      bytea unique check (octet_length(token_hash) = 32),
  made_by         text not null
                  constraint invitation_is_made_by_an_account_a_command_or_a_sign_up check (made_by in ('account', 'command', 'sign-up')),
  inviter_id      bigint references account (id) on delete cascade,
  email           text
                  constraint invitation_email_is_an_address_max_254_characters
                  check (char_length(email) <= 254 and email ~ '^[^@[:space:][:cntrl:]]+@[^@[:space:][:cntrl:]]+$'),
  is_sent_by_mail boolean not null,
  group_id        bigint references repository_group (id) on delete cascade,
  role            member_role,
  created_at      timestamptz not null default now(),
  expires_at      timestamptz not null,
  accepted_at     timestamptz,
  accepted_by     bigint references account (id) on delete set null,
  withdrawn_at    timestamptz,
  constraint invitation_of_an_account_has_an_inviter check ((made_by = 'account') = (inviter_id is not null)),
  constraint invitation_to_a_group_has_a_role check ((group_id is null) = (role is null)),
  constraint invitation_by_mail_has_an_email check (email is not null or not is_sent_by_mail)
);
create index on invitation (group_id) where group_id is not null;
create index on invitation (inviter_id) where inviter_id is not null;
create index on invitation (accepted_by) where accepted_by is not null;
create index on invitation (expires_at);
comment on column invitation.token_hash is 'Null until the mail is sent: its token is made then.';
comment on column invitation.inviter_id is 'An invitation ends when its inviter may not invite any more.';
