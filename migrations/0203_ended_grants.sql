-- The sweep deletes grants some time after their end.
create index concurrently if not exists ended_grant on authorization_grant (ended_at) where ended_at is not null;
