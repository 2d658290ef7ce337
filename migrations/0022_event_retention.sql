-- Events: the job sweep_events erases client IPs, and old events when the operator wants it (README, Configuration).

-- The definition is in functions/.
create function refuse_event_change() returns trigger language plpgsql as 'begin return new; end';
create trigger event_loses_only_its_address before update on registry_event
  for each row execute function refuse_event_change();

-- The oldest events that still have a client IP.
create index event_with_address on registry_event (id) where address is not null;
-- The events of a deleted repository, by its path.
create index event_of_deletion on registry_event ((details ->> 'path')) where action = 'delete-repository';
