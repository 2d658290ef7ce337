-- Archives that were uploaded in the browser and are not published yet.
create table browser_upload (
  id            uuid primary key default gen_random_uuid(),
  account_id    bigint not null references account (id) on delete cascade,
  repository_id bigint not null references repository (id) on delete cascade,
  file_name     text not null constraint upload_file_name_max_200_characters check (char_length(file_name) <= 200),
  sha256        bytea not null constraint upload_sha256_has_32_bytes check (octet_length(sha256) = 32),
  size          bigint not null constraint upload_is_not_empty check (size > 0),
  created_at    timestamptz not null default now(),
  expires_at    timestamptz not null default now() + interval '12 hours',
  discarded_at  timestamptz
);
create index on browser_upload (account_id);
create index on browser_upload (repository_id);
create index on browser_upload (expires_at);
comment on table browser_upload is
  'The archive store keeps the bytes. Nothing refers to archive: a collection leaves files alone that were stored within a day, which is longer than an upload lives.';
comment on column browser_upload.discarded_at is
  'A discarded upload still counts for the bytes of its account, because its file stays until a collection.';
