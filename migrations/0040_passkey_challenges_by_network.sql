-- Anybody can ask for challenges: each network keeps its latest hundred.
alter table passkey_challenge add column network text not null default '';
create index on passkey_challenge (network, expires_at);
