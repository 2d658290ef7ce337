-- Accounts, their sessions, and how people sign in with a password.

create table account (
  id                bigint generated always as identity primary key,
  username          text not null
                    constraint username_is_well_formed
                    check (username ~ '^[a-z0-9](?:[._-]?[a-z0-9])*$' and char_length(username) <= 39),
  display_name      text not null default ''
                    constraint display_name_max_100_characters check (char_length(display_name) <= 100)
                    constraint display_name_is_plain_text check (is_plain_text(display_name)),
  email             text
                    constraint email_is_an_address_max_254_characters
                    check (char_length(email) <= 254 and email ~ '^[^@[:space:][:cntrl:]]+@[^@[:space:][:cntrl:]]+$'),
  password_hash     text not null,
  is_admin          boolean not null default false,
  disabled_at       timestamptz,
  created_at        timestamptz not null default now(),
  email_verified_at timestamptz
                    constraint only_an_email_can_be_verified check (email_verified_at is null or email is not null),
  constraint username_is_taken unique (username)
);
create unique index email_is_taken on account (lower(email));
comment on column account.password_hash is 'argon2id in PHC form; rehashed at sign-in when the parameters change.';
comment on column account.is_admin is 'Administrates the service: counts as admin of every group and repository.';

create trigger new_email_is_not_verified before update of email on account
  for each row when (new.email is distinct from old.email and new.email_verified_at is not distinct from old.email_verified_at)
  execute function forget_email_verification();

-- The former name of an account is free again after 90 days, so that nobody is mistaken for its former owner. It is
-- checked after the row is written, when a deletion or rename that ran at the same time can be seen.
create table reserved_username (
  username       text primary key,
  reserved_until timestamptz not null,
  account_id     bigint
);
create index on reserved_username (account_id);
comment on column reserved_username.account_id is 'The account that had the name. Null, or deleted: nobody may take it.';
create trigger username_is_not_reserved after insert or update of username on account
  for each row execute function refuse_reserved_username();
create trigger username_is_reserved_after_rename after update of username on account
  for each row when (old.username <> new.username) execute function reserve_username();

create table session (
  id_hash      bytea primary key check (octet_length(id_hash) = 32),
  account_id   bigint not null references account (id) on delete cascade,
  created_at   timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  expires_at   timestamptz not null,
  network      text not null,
  user_agent   text check (char_length(user_agent) <= 400),
  last_network text,
  proved_at    timestamptz not null default now()
);
create index on session (account_id);
create index on session (expires_at);
comment on column session.network is 'Where it was signed in from.';
comment on column session.proved_at is 'When the person last proved to be the owner of the account: by a password, a code or a passkey.';

-- Where a browser goes after its sign-in. It is kept here, so that a link cannot lead to another site. Each network keeps a
-- bounded number.
create table sign_in_return (
  id_hash    bytea primary key check (octet_length(id_hash) = 32),
  path       text not null check (path ~ '^/([!-.0-[\]-~][!-~]*)?$' and octet_length(path) <= 16384),
  expires_at timestamptz not null,
  network    text not null default ''
);
create index on sign_in_return (expires_at);
create index sign_in_return_by_network on sign_in_return (network, expires_at);

-- The origins of past sign-ins. A person who signed in before from a browser or a network is not locked out by others.
create table sign_in_origin (
  account_id   bigint not null references account (id) on delete cascade,
  origin_hash  bytea not null check (octet_length(origin_hash) = 32),
  last_used_at timestamptz not null default now(),
  primary key (account_id, origin_hash)
);
comment on column sign_in_origin.origin_hash is 'SHA-256 of the browser''s device cookie, or of the text "network " and the network.';

-- Failed sign-ins and failed client authentications, counted by whom and from where they come. Unlogged: a count is not
-- worth a disk flush, and to lose the counts in a crash harms nobody.
create unlogged table auth_failure (
  key_hash       bytea primary key check (octet_length(key_hash) = 32),
  failures       integer not null check (failures > 0),
  window_ends_at timestamptz not null
);
create index on auth_failure (window_ends_at);
comment on column auth_failure.key_hash is 'SHA-256 of what is counted, such as a client and the address it comes from.';

-- Links that verify an email: one for each account. A link is for one address, so a changed email makes it useless.
create table email_verification (
  account_id bigint primary key references account (id) on delete cascade,
  email      text not null,
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  expires_at timestamptz not null
);
create index on email_verification (expires_at);

-- Links that set a new password: one for each account, for an hour. Any change of the password makes its link useless.
create table password_reset (
  account_id      bigint primary key references account (id) on delete cascade,
  token_hash      bytea not null unique check (octet_length(token_hash) = 32),
  credential_hash bytea not null check (octet_length(credential_hash) = 32),
  expires_at      timestamptz not null
);
create index on password_reset (expires_at);
comment on column password_reset.credential_hash is 'SHA-256 of account.password_hash when the link was made.';
