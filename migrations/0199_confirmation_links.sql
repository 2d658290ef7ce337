-- A mailed link that confirms one session, for a person who has no password and no second factor, and whose provider does
-- not say when they signed in there.
create table confirmation_link (
  id           bigint generated always as identity primary key,
  session_hash bytea not null unique references session (id_hash) on delete cascade,
  token_hash   bytea unique check (octet_length(token_hash) = 32),
  return_id    text not null check (char_length(return_id) <= 16384),
  expires_at   timestamptz not null
);
create index on confirmation_link (expires_at);
comment on column confirmation_link.token_hash is 'Null until the mail is sent: the queue contains no secrets.';
comment on column confirmation_link.return_id is 'The signed page to return to; empty for the home page.';
