-- Directories that create and end accounts over SCIM. A directory belongs to a sign-in provider, and has its issuer.
create table directory_user (
  account_id  bigint primary key references account (id) on delete cascade,
  issuer      text not null check (char_length(issuer) between 1 and 1000),
  user_name   text not null check (char_length(user_name) between 1 and 254),
  external_id text check (char_length(external_id) between 1 and 255),
  given_name  text not null default '' check (char_length(given_name) <= 100),
  family_name text not null default '' check (char_length(family_name) <= 100),
  created_at  timestamptz not null default now(),
  changed_at  timestamptz not null default now(),
  removed_at  timestamptz
);
create unique index directory_user_name_is_taken on directory_user (issuer, lower(user_name)) where removed_at is null;
create unique index directory_external_id_is_taken on directory_user (issuer, external_id) where removed_at is null;
create index on directory_user (issuer, account_id);
comment on table directory_user is 'Accounts that a directory manages.';
comment on column directory_user.user_name is 'The name there, often an email. The account has a username of its own.';
comment on column directory_user.removed_at is
  'When the directory removed the user, which ended the account. The same external id gets the account back.';

create table directory_group (
  id           bigint generated always as identity primary key,
  issuer       text not null check (char_length(issuer) between 1 and 1000),
  display_name text not null check (char_length(display_name) between 1 and 256),
  external_id  text check (char_length(external_id) between 1 and 255),
  created_at   timestamptz not null default now(),
  changed_at   timestamptz not null default now()
);
create unique index directory_group_name_is_taken on directory_group (issuer, lower(display_name));
create index on directory_group (issuer, id);
comment on table directory_group is 'Groups of a directory. Those that the group map names give roles here.';

create table directory_group_member (
  group_id   bigint not null references directory_group (id) on delete cascade,
  account_id bigint not null references directory_user (account_id) on delete cascade,
  primary key (group_id, account_id)
);
create index on directory_group_member (account_id);
