-- The sweep deletes authorizations some time after their end.
create index concurrently if not exists ended_authorization on account_authorization (ended_at) where ended_at is not null;
