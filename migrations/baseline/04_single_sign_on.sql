-- Sign-in with OpenID Connect providers.

-- An identity is a person at a provider: issuer and subject, and nothing else, because names and email addresses change
-- hands.
create table account_identity (
  issuer       text not null check (char_length(issuer) between 1 and 1000),
  subject      text not null check (char_length(subject) between 1 and 255),
  account_id   bigint not null references account (id) on delete cascade,
  provider     text not null check (char_length(provider) <= 30),
  email        text check (char_length(email) <= 254),
  linked_at    timestamptz not null default now(),
  last_used_at timestamptz,
  constraint identity_is_linked primary key (issuer, subject),
  constraint account_has_an_identity_of_the_issuer unique (account_id, issuer)
);
comment on column account_identity.provider is 'The name in OIDC_<NAME>_ISSUER when it was linked or last used, lower-case.';
comment on column account_identity.email is 'As the provider told it at the last sign-in: shown to the person, never used to find an account.';

-- Sign-ins that are on their way to a provider and back: single use, for one browser, for ten minutes. Sensitive acts may
-- be confirmed so: the person signs in there again, and nothing is linked.
create table provider_sign_in (
  state_hash      bytea primary key check (octet_length(state_hash) = 32),
  browser_hash    bytea not null check (octet_length(browser_hash) = 32),
  provider        text not null,
  nonce           text not null,
  code_verifier   text not null,
  return_id       text not null check (char_length(return_id) <= 43),
  account_id      bigint references account (id) on delete cascade,
  network         text not null,
  expires_at      timestamptz not null,
  is_confirmation boolean not null default false
);
create index on provider_sign_in (network, expires_at);
create index on provider_sign_in (expires_at);
create index on provider_sign_in (account_id) where account_id is not null;
comment on column provider_sign_in.account_id is 'The signed-in account that the identity will be linked to, or that is confirmed; null for a sign-in.';

-- People whom a provider has proven, and who have to choose: link an account that may be theirs, or make a new one.
create table proven_identity (
  id_hash      bytea primary key check (octet_length(id_hash) = 32),
  browser_hash bytea not null check (octet_length(browser_hash) = 32),
  provider     text not null,
  person       jsonb not null,
  account_id   bigint not null references account (id) on delete cascade,
  return_id    text not null check (char_length(return_id) <= 43),
  expires_at   timestamptz not null
);
create index on proven_identity (expires_at);
create index on proven_identity (account_id);
comment on column proven_identity.account_id is 'The account with the same email or name.';
