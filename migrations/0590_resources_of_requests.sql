-- The resources that an authorization request names (RFC 8707). One migration for each table, so that it waits for one lock.
alter table authorization_request add column resources text[];
comment on column authorization_request.resources is 'Null when the request names none.';
