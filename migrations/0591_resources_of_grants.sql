-- The URLs for which a grant is good (RFC 8707).
alter table authorization_grant add column resources text[];
comment on column authorization_grant.resources is
  'Null: everything. Resources of svc by their paths below BASE_URL, "/" for its API and all its registries.';
