-- Trigger function: queues every identity event for the log. This includes events of commands and migrations.
create or replace function queue_event_for_log() returns trigger language plpgsql as $$
begin
  insert into unlogged_identity_event (event_id) select id from added;
  return null;
end
$$;
