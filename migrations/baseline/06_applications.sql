-- Registered applications, and what accounts have granted to them.

create type resource_scope as enum ('all', 'public', 'specified');

create table application (
  id                 bigint generated always as identity primary key,
  client_id          text not null
                     constraint client_id_is_8_to_64_lower_case_letters_and_digits check (client_id ~ '^[a-z0-9]{8,64}$'),
  name               text not null
                     constraint application_name_1_to_50_characters check (char_length(name) between 1 and 50 and btrim(name) <> '')
                     constraint application_name_is_plain_text check (is_plain_text(name)),
  description        text
                     constraint application_description_max_350_characters check (char_length(description) <= 350)
                     constraint application_description_is_plain_text check (is_plain_text(translate(description, E'\t\r\n', ''))),
  website            text not null
                     constraint application_website_is_a_web_address_max_128_characters
                     check (char_length(website) <= 128 and website ~ '^https?://[^[:space:][:cntrl:]/?#"<>]+[^[:space:][:cntrl:]"<>]*$')
                     constraint application_website_is_plain_text check (is_plain_text(website))
                     constraint application_website_has_no_userinfo check (website !~ '^https?://[^/?#]*@'),
  redirect_uri       text not null
                     constraint application_redirect_uri_is_http_without_userinfo_or_fragment
                     check (char_length(redirect_uri) <= 2000
                       and redirect_uri ~ '^https?://[^[:cntrl:] /?#\\@"<>^`{|}]+(?:[/?][!-~]*)?$' and redirect_uri !~ '[#\\"<>^`{|}]'),
  exact_redirect     boolean not null default false,
  logo               bytea not null
                     constraint application_logo_max_1_mb check (octet_length(logo) <= 1048576)
                     constraint application_logo_is_a_png_jpeg_gif_or_webp_image check (image_type(logo) is not null),
  scopes             text[] not null
                     constraint application_scopes_are_predefined check (are_scopes(scopes)),
  resource_scope     resource_scope not null,
  status             text not null default 'pending'
                     constraint application_status_is_pending_approved_suspended_or_declined
                     check (status in ('pending', 'approved', 'suspended', 'declined')),
  is_resource_server boolean not null default false,
  created_at         timestamptz not null default now(),
  status_reason      text
                     constraint application_status_reason_max_350_characters check (char_length(status_reason) <= 350)
                     constraint application_status_reason_is_plain_text check (is_plain_text(status_reason)),
  constraint client_id_is_taken unique (client_id)
);
comment on column application.exact_redirect is 'True: only the registered Redirect URL itself; false: any address on its host (SPEC 4.1).';
comment on column application.is_resource_server is 'May introspect every token, not only its own (RFC 7662).';
comment on column application.status_reason is 'Why an administrator suspended or declined it; null when none was given.';

-- Client secrets: more than one works while a rotation overlaps.
create table application_secret (
  secret_hash    bytea primary key
                 constraint secret_hash_is_sha256 check (octet_length(secret_hash) = 32),
  application_id bigint not null references application (id) on delete cascade,
  created_at     timestamptz not null default now(),
  expires_at     timestamptz not null default 'infinity'
);
create index on application_secret (application_id);

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
) with (fillfactor = 80);
create unique index one_authorization_per_account_and_application
  on account_authorization (account_id, application_id) where ended_at is null;
comment on table account_authorization is 'All grants of one account to one application: the unit of revocation.';
comment on column account_authorization.scopes is 'Of the first grant, like resource_scope. Only the previous release reads them.';
comment on column account_authorization.ended_at is 'Withdrawn or revoked: none of its codes and tokens works any more.';

create table authorization_repository (
  authorization_id bigint not null references account_authorization (id) on delete cascade,
  repository_id    bigint not null references repository (id) on delete cascade,
  primary key (authorization_id, repository_id)
);
create index on authorization_repository (repository_id);
comment on table authorization_repository is 'Only the previous release reads it: see authorization_grant.repository_ids.';

-- The grant of a token decides what the token may do, and whether it is live: a refresh writes one new row and updates
-- one, and a revocation writes one row, whatever number of tokens it ends. The first grant of an authorization may have its
-- id, so both tables draw their ids from one sequence.
create table authorization_grant (
  id               bigint primary key default nextval('account_authorization_id_seq'),
  authorization_id bigint not null references account_authorization (id) on delete cascade,
  account_id       bigint not null,
  application_id   bigint not null,
  scopes           text[] not null,
  resource_scope   resource_scope not null,
  repository_ids   bigint[] not null default '{}',
  granted_at       timestamptz default now(),
  ended_at         timestamptz,
  epoch            integer not null default 0,
  replayed_codes   bytea[] not null default '{}'
) with (fillfactor = 90);
-- Not validated, in every database alike: older grants are copies of checked rows.
alter table authorization_grant add constraint grant_scopes_are_predefined check (are_scopes(scopes)) not valid;
create index on authorization_grant (authorization_id);
comment on table authorization_grant is 'One act of consent. An authorization is the set of its grants.';
comment on column authorization_grant.account_id is
  'Like application_id a copy from the authorization, so that a token check reads one row less. Neither ever changes.';
comment on column authorization_grant.repository_ids is
  'The chosen repositories, when the resource scope is specified. Ids are never reused, so the id of a deleted repository allows nothing.';
comment on column authorization_grant.granted_at is
  'Null for a grant that was made from an authorization of the release before grants. Such an authorization may hold several acts of consent, so it never replaces the consent page.';
comment on column authorization_grant.epoch is
  'Every pair copies it. Increasing it ends all pairs made before, also one that a racing refresh is about to commit.';
comment on column authorization_grant.replayed_codes is
  'Hashes of codes that were used twice: the pairs that came from them are dead (RFC 6749 §4.1.2).';
create trigger authorization_ends_its_grants
  after update of ended_at on account_authorization
  for each row when (new.ended_at is not null and old.ended_at is null) execute function end_grants();

-- A consent page that waits for its answer: the form carries only its id. An account keeps its latest hundred.
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
create index on authorization_request (account_id, expires_at);
comment on column authorization_request.link is 'Path and query that led here, for whoever signs in as someone else and comes back.';
comment on column authorization_request.redirect_uri is 'Proven to belong to the application; the registered one when the request left it out (SPEC 4.1).';
comment on column authorization_request.state is 'Percent-encoded as the request had it, so that it is returned unchanged; null when the request had none.';
