-- The resources that a device names (RFC 8707).
alter table device_request add column resources text[];
comment on column device_request.resources is 'Null when the request names none.';
