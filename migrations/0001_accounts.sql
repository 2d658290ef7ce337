-- Accounts, their sessions, and the places a sign-in returns to (SPEC 5.2, DESIGN §1).
create table account (
  id            bigint generated always as identity primary key,
  username      text not null
                constraint username_is_well_formed
                check (username ~ '^[a-z0-9](?:[._-]?[a-z0-9])*$' and char_length(username) <= 39),
  display_name  text not null default ''
                constraint display_name_max_100_characters check (char_length(display_name) <= 100),
  email         text
                constraint email_is_an_address_max_254_characters
                check (char_length(email) <= 254 and email ~ '^[^@[:space:][:cntrl:]]+@[^@[:space:][:cntrl:]]+$'),
  password_hash text not null,
  is_admin      boolean not null default false,
  disabled_at   timestamptz,
  created_at    timestamptz not null default now(),
  constraint username_is_taken unique (username)
);
create unique index email_is_taken on account (lower(email));
comment on column account.password_hash is 'argon2id in PHC form; rehashed at sign-in when the parameters change.';
comment on column account.is_admin is 'Administrates the service: counts as admin of every group and repository.';

create table session (
  id_hash      bytea primary key check (octet_length(id_hash) = 32),
  account_id   bigint not null references account (id) on delete cascade,
  created_at   timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  expires_at   timestamptz not null,
  network      text not null
);
create index on session (account_id);
create index on session (expires_at);
comment on column session.network is 'Where it was signed in from: failures elsewhere do not keep its account out from there.';

-- Where a browser goes once it has signed in: kept here, so that a link can name no foreign place.
create table sign_in_return (
  id_hash    bytea primary key check (octet_length(id_hash) = 32),
  path       text not null check (path ~ '^/([!-.0-[\]-~][!-~]*)?$' and octet_length(path) <= 16384),
  expires_at timestamptz not null
);
create index on sign_in_return (expires_at);
