-- Links that verify an email: one for each account. A link is for one address, so a changed email makes it useless.
create table email_verification (
  account_id bigint primary key references account (id) on delete cascade,
  email      text not null,
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  expires_at timestamptz not null
);
create index on email_verification (expires_at);

alter table personal_token add column expiry_noted_at timestamptz;
comment on column personal_token.expiry_noted_at is 'When its owner was told by mail that it expires soon.';
