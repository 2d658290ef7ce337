-- Signed values replace rows that anybody could create, and so evict those of somebody else: the page to return to after a
-- sign-in, and the challenges of passkeys. Of a challenge, only its use is stored. The previous release still writes to
-- sign_in_return and passkey_challenge while it runs beside this one, so the next release drops these tables.
create table signing_key (
  is_only boolean primary key default true check (is_only),
  key     bytea not null check (octet_length(key) = 32)
);
comment on table signing_key is 'Signs values that browsers keep for the server. All processes share it.';
insert into signing_key (key) values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

create table spent_challenge (
  challenge_hash bytea primary key check (octet_length(challenge_hash) = 32),
  expires_at     timestamptz not null
);
create index on spent_challenge (expires_at);
comment on table spent_challenge is 'Challenges of passkeys that were used, until they expire. A challenge works once.';

alter table provider_sign_in drop constraint provider_sign_in_return_id_check,
  add constraint provider_sign_in_return_id_check check (char_length(return_id) <= 16384);
alter table proven_identity drop constraint proven_identity_return_id_check,
  add constraint proven_identity_return_id_check check (char_length(return_id) <= 16384);
