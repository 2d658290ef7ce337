-- What an account has granted: to applications (SPEC 2.2, 2.3, §3) and to itself (personal access tokens).
-- "authorization" is a reserved word of SQL.
create table account_authorization (
  id             bigint generated always as identity primary key,
  account_id     bigint not null references account (id) on delete cascade,
  application_id bigint not null references application (id) on delete cascade,
  scopes         text[] not null constraint authorization_scopes_are_predefined check (are_scopes(scopes)),
  resource_scope resource_scope not null,
  granted_at     timestamptz not null default now(),
  last_used_at   timestamptz,
  ended_at       timestamptz
);
create unique index one_authorization_per_account_and_application
  on account_authorization (account_id, application_id) where ended_at is null;
comment on table account_authorization is 'An account''s standing consent to an application: the unit of revocation.';
comment on column account_authorization.ended_at is 'Withdrawn or revoked: none of its codes and tokens works any more.';

create table authorization_repository (
  authorization_id bigint not null references account_authorization (id) on delete cascade,
  repository_id    bigint not null references repository (id) on delete cascade,
  primary key (authorization_id, repository_id)
);
create index on authorization_repository (repository_id);

-- A consent page that waits for its answer: the form carries only its id.
create table authorization_request (
  id_hash         bytea primary key check (octet_length(id_hash) = 32),
  account_id      bigint not null references account (id) on delete cascade,
  application_id  bigint not null references application (id) on delete cascade,
  link            text not null,
  redirect_uri    text not null,
  state           text,
  scopes          text[] not null,
  resource_scope  resource_scope not null,
  code_challenge  text check (code_challenge ~ '^[A-Za-z0-9._~-]{43,128}$'),
  expires_at      timestamptz not null,
  answered_at     timestamptz
);
create index on authorization_request (expires_at);
create index on authorization_request (account_id);
comment on column authorization_request.link is 'Path and query that led here, for whoever signs in as someone else and comes back.';
comment on column authorization_request.redirect_uri is 'Proven to belong to the application; the registered one when the request left it out (SPEC 4.1).';
comment on column authorization_request.state is 'Percent-encoded as the request had it, so that it is returned unchanged; null when the request had none.';

create table authorization_code (
  code_hash        bytea primary key check (octet_length(code_hash) = 32),
  authorization_id bigint not null references account_authorization (id) on delete cascade,
  redirect_uri     text not null,
  scopes           text[] not null,
  code_challenge   text,
  created_at       timestamptz not null default now(),
  expires_at       timestamptz not null,
  redeemed_at      timestamptz
);
create index on authorization_code (authorization_id);
create index on authorization_code (expires_at);
comment on column authorization_code.redirect_uri is 'The one the browser was sent to: a redirect_uri in the token request must equal it (SPEC 4.2).';

create table token_pair (
  id                 bigint generated always as identity primary key,
  authorization_id   bigint not null references account_authorization (id) on delete cascade,
  code_hash          bytea references authorization_code (code_hash) on delete set null,
  access_hash        bytea not null unique check (octet_length(access_hash) = 32),
  access_scopes      text[] not null,
  access_expires_at  timestamptz not null,
  refresh_hash       bytea not null unique check (octet_length(refresh_hash) = 32),
  refresh_scopes     text[] not null,
  refresh_expires_at timestamptz not null,
  superseded_at      timestamptz,
  successor_id       bigint,
  sealed_successor   bytea,
  created_at         timestamptz not null default now()
);
create index on token_pair (authorization_id);
create index on token_pair (code_hash);
create index on token_pair (refresh_expires_at);
comment on column token_pair.superseded_at is 'First use of the refresh token: the pair then works for the grace period and no longer (SPEC §3).';
comment on column token_pair.sealed_successor is 'The new pair, encrypted under a key that only the holder of this refresh token can derive; wiped when the grace ends.';

create table personal_token (
  id             bigint generated always as identity primary key,
  account_id     bigint not null references account (id) on delete cascade,
  name           text not null
                 constraint personal_token_name_1_to_100_characters check (char_length(name) between 1 and 100 and btrim(name) <> ''),
  token_hash     bytea not null unique check (octet_length(token_hash) = 32),
  scopes         text[] not null constraint personal_token_scopes_are_predefined check (are_scopes(scopes)),
  resource_scope resource_scope not null,
  created_at     timestamptz not null default now(),
  expires_at     timestamptz not null,
  last_used_at   timestamptz,
  revoked_at     timestamptz
);
create unique index personal_token_name_is_taken on personal_token (account_id, name) where revoked_at is null;
comment on column personal_token.expires_at is 'infinity when it was knowingly made without an end.';

create table personal_token_repository (
  personal_token_id bigint not null references personal_token (id) on delete cascade,
  repository_id     bigint not null references repository (id) on delete cascade,
  primary key (personal_token_id, repository_id)
);
create index on personal_token_repository (repository_id);

-- The one answer to "is this token good, whose is it, what may it do": access tokens and personal tokens alike.
create view live_token as
  select p.access_hash as token_hash, 'access' as kind, p.id as token_id, a.account_id, a.id as authorization_id,
         a.application_id, p.access_scopes as scopes, a.resource_scope, p.created_at, p.access_expires_at as expires_at,
         array(select repository_id from authorization_repository where authorization_id = a.id) as repository_ids
    from token_pair p
    join account_authorization a on a.id = p.authorization_id and a.ended_at is null
    join application c on c.id = a.application_id and c.status = 'approved'
    join account u on u.id = a.account_id and u.disabled_at is null
   where p.access_expires_at > now()
  union all
  select t.token_hash, 'personal', t.id, t.account_id, null, null, t.scopes, t.resource_scope, t.created_at, t.expires_at,
         array(select repository_id from personal_token_repository where personal_token_id = t.id)
    from personal_token t
    join account u on u.id = t.account_id and u.disabled_at is null
   where t.expires_at > now() and t.revoked_at is null;
