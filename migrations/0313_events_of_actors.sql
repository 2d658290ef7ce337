-- What an account did, in all logs. The former index has only identity events.
create index concurrently if not exists event_of_actor on event (actor_id, happened_at, id) where actor_id is not null;
