-- Trigger function: every identity event is written to the log, also one of a command or a migration.
create or replace function queue_event_for_log() returns trigger language plpgsql as $$
begin
  insert into unlogged_identity_event (event_id) select id from added;
  return null;
end
$$;
