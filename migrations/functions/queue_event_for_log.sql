-- Trigger function: every identity event is written to the log, whoever adds it.
create or replace function queue_event_for_log() returns trigger language plpgsql as $$
begin
  insert into unlogged_identity_event (event_id) values (new.id);
  return null;
end
$$;
