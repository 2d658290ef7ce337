-- Public clients (OPENID 201–210): programs on the machines of people, which can keep no secret.
alter table application
  add column is_public boolean not null default false,
  add constraint application_that_is_public_is_no_resource_server check (not (is_public and is_resource_server)),
  drop constraint application_redirect_uri_is_http_without_userinfo_or_fragment,
  add constraint application_redirect_uri_is_http_without_userinfo_or_fragment
      check (char_length(redirect_uri) <= 2000 and redirect_uri !~ '[#\\"<>^`{|}]'
             and (redirect_uri ~ '^https?://[^[:cntrl:] /?#\\@"<>^`{|}]+(?:[/?][!-~]*)?$'
                  or redirect_uri ~ '^[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+:/[!-~]*$')),
  add constraint application_with_a_private_use_scheme_is_public check (is_public or redirect_uri ~ '^https?://');
comment on column application.is_public is
  'Has no client secret: PKCE and an exact Redirect URL take its place. A secret in application_secret does not work.';

alter table authorization_grant add column last_used_at timestamptz;
comment on column authorization_grant.last_used_at is
  'When a pair of the grant was last issued. Only for grants of public clients, of which the longest unused one ends.';
