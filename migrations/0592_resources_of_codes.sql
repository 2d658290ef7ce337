-- The URLs for which a code is good (RFC 8707).
alter table authorization_code add column resources text[];
comment on column authorization_code.resources is 'Null: those of the grant.';
