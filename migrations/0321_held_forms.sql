-- A form that waits in the server until its person has confirmed who they are. It has no password, no code and no file.
create table held_form (
  id_hash      bytea primary key check (octet_length(id_hash) = 32),
  session_hash bytea not null references session (id_hash) on delete cascade,
  url          text not null check (char_length(url) <= 1024),
  page         text not null check (char_length(page) <= 1024),
  fields       text not null check (octet_length(fields) <= 32768),
  expires_at   timestamptz not null
);
create index on held_form (session_hash);
create index on held_form (expires_at);
comment on column held_form.url is 'Where the form was sent to.';
comment on column held_form.page is 'The page of the form, to send it again.';
comment on column held_form.fields is 'Percent-encoded, without the token of the form.';
