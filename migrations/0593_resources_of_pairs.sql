-- The URLs for which the tokens of a pair are good (RFC 8707).
alter table token_pair add column refresh_resources text[], add column access_resources text[];
comment on column token_pair.refresh_resources is 'Null: those of the grant.';
comment on column token_pair.access_resources is 'Null: those of the refresh token.';
