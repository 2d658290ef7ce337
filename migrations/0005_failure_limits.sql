-- Failed sign-ins and failed client authentications, counted by whom and from where they come (DESIGN §8).
-- Unlogged: a count is worth no disk flush, and losing the counts in a crash harms nobody.
create unlogged table auth_failure (
  key_hash       bytea primary key check (octet_length(key_hash) = 32),
  failures       integer not null check (failures > 0),
  window_ends_at timestamptz not null
);
create index on auth_failure (window_ends_at);
comment on column auth_failure.key_hash is 'SHA-256 of what is counted, such as a client and the address it comes from.';
