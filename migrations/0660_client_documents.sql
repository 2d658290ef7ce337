-- Client metadata documents (OPENID 275–281): the client id of an application may be the URL of a document that describes it.
alter table application
  add column redirect_uris text[],
  add column is_unreviewed boolean not null default false,
  drop constraint client_id_is_8_to_64_lower_case_letters_and_digits,
  add constraint client_id_is_8_to_64_lower_case_letters_and_digits_or_a_url
      check (client_id ~ '^[a-z0-9]{8,64}$' or (client_id ~ '^https?://[!-~]+$' and char_length(client_id) <= 255)),
  add constraint application_with_a_url_as_client_id_has_redirect_uris check ((client_id ~ '^https?://') = (redirect_uris is not null)),
  add constraint application_with_redirect_uris_is_a_public_client check (redirect_uris is null or (is_public and exact_redirect)),
  add constraint application_redirect_uri_is_the_first check (redirect_uri is not distinct from coalesce(redirect_uris[1], redirect_uri));
comment on column application.redirect_uris is
  'For a client metadata document: the redirect URIs that are accepted, each exactly. Null for all other applications.';
comment on column application.is_unreviewed is
  'Made from a client metadata document without a review, because CLIENT_METADATA_DOCUMENTS is open.';

drop trigger application_is_reviewed on application;
create trigger application_is_reviewed
  before insert or update of status, is_unreviewed on application
  for each row execute function note_application_review();

create table client_document (
  id            bigint generated always as identity primary key,
  client_id     text not null unique
                check (client_id ~ '^https?://[!-~]+$' and char_length(client_id) <= 255),
  name          text not null check (char_length(name) between 1 and 50 and is_plain_text(name)),
  redirect_uris text[] not null check (cardinality(redirect_uris) > 0),
  scopes        text[] not null check (are_scopes(scopes)),
  is_rejected   boolean not null default false,
  reason        text check (char_length(reason) <= 350 and is_plain_text(reason)),
  account_id    bigint references account (id) on delete set null,
  asked_at      timestamptz not null default now()
);
create index on client_document (account_id);
comment on table client_document is
  'Client metadata documents that wait for a review, or that were rejected. An approved one is an application.';
comment on column client_document.id is 'New when the document has changed, so that a decision is about what was shown.';
comment on column client_document.account_id is 'Who has opened the link of the application first.';
