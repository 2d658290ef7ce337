-- Does nothing. It was a trigger function of the former identity_event: insert_events queues events for the log.
create or replace function queue_event_for_log() returns trigger language plpgsql as $$
begin
  return null;
end
$$;
