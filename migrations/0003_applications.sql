-- Registered applications (SPEC 2.1, §8) and the scopes they may ask for (SPEC 2.4).
create type resource_scope as enum ('all', 'public', 'specified');

-- True for a list, without repeats, of scopes of SPEC 2.4 with a permission type they are listed with.
create function are_scopes(names text[]) returns boolean
language sql immutable parallel safe as $$
  select cardinality(names) > 0
     and cardinality(names) = (select count(distinct name) from unnest(names) as name)
     and names <@ array[
      'repo-code:r', 'repo-code:rw', 'repo-pr:r', 'repo-pr:rw',
      'repo-issue:r', 'repo-issue:rw', 'repo-notes:r', 'repo-notes:rw',
      'repo-contents:r', 'repo-contents:rw', 'repo-commit-status:r', 'repo-commit-status:rw',
      'repo-svc-trigger:r', 'repo-svc-trigger:rw', 'repo-svc-history:r',
      'repo-svc-detail:r', 'repo-svc-detail:rw', 'repo-basic-info:r',
      'repo-manage:r', 'repo-manage:rw', 'repo-delete:rw',
      'repo-security:r', 'registry-package:r', 'registry-package:rw',
      'registry-package-delete:rw', 'registry-manage:r', 'registry-manage:rw',
      'registry-delete:rw', 'account-profile:r', 'account-profile:rw',
      'account-email:r', 'account-email:rw', 'account-engage:r', 'account-engage:rw',
      'group-resource:r', 'group-resource:rw', 'group-manage:r', 'group-manage:rw',
      'group-delete:r', 'group-delete:rw', 'mission-delete:r', 'mission-delete:rw',
      'mission-manage:r', 'mission-manage:rw'
     ]
$$;

-- The first bytes of the image formats that every browser shows.
create function image_type(image bytea) returns text
language sql immutable parallel safe as $$
  select case
    when substring(image for 8) = '\x89504e470d0a1a0a' then 'image/png'
    when substring(image for 3) = '\xffd8ff' then 'image/jpeg'
    when substring(image for 6) in ('GIF87a', 'GIF89a') then 'image/gif'
    when substring(image for 4) = 'RIFF' and substring(image from 9 for 4) = 'WEBP' then 'image/webp'
  end
$$;

create table application (
  id                 bigint generated always as identity primary key,
  client_id          text not null
                     constraint client_id_is_8_to_64_lower_case_letters_and_digits check (client_id ~ '^[a-z0-9]{8,64}$'),
  name               text not null
                     constraint application_name_1_to_50_characters check (char_length(name) between 1 and 50 and btrim(name) <> ''),
  description        text
                     constraint application_description_max_350_characters check (char_length(description) <= 350),
  website            text not null
                     constraint application_website_is_a_web_address_max_128_characters
                     check (char_length(website) <= 128 and website ~ '^https?://[^[:space:][:cntrl:]/?#"<>]+[^[:space:][:cntrl:]"<>]*$'),
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
                     constraint application_status_is_pending_approved_or_suspended check (status in ('pending', 'approved', 'suspended')),
  is_resource_server boolean not null default false,
  created_at         timestamptz not null default now(),
  constraint client_id_is_taken unique (client_id)
);
comment on column application.exact_redirect is 'True: only the registered Redirect URL itself; false: any address on its host (SPEC 4.1).';
comment on column application.is_resource_server is 'May introspect every token, not only its own (RFC 7662).';

-- Client secrets: more than one works while a rotation overlaps.
create table application_secret (
  secret_hash    bytea primary key
                 constraint secret_hash_is_sha256 check (octet_length(secret_hash) = 32),
  application_id bigint not null references application (id) on delete cascade,
  created_at     timestamptz not null default now(),
  expires_at     timestamptz not null default 'infinity'
);
create index on application_secret (application_id);
