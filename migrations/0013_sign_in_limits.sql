-- A person who signed in before from a browser or a network is not locked out by others (DESIGN §8): the origins of past
-- sign-ins.
create table sign_in_origin (
  account_id   bigint not null references account (id) on delete cascade,
  origin_hash  bytea not null check (octet_length(origin_hash) = 32),
  last_used_at timestamptz not null default now(),
  primary key (account_id, origin_hash)
);
comment on column sign_in_origin.origin_hash is 'SHA-256 of the browser''s device cookie, or of the text "network " and the network.';

insert into sign_in_origin (account_id, origin_hash, last_used_at)
select account_id, sha256(convert_to('network ' || network, 'UTF8')), max(created_at)
  from session
 group by 1, 2;
