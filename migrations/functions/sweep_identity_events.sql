-- Calls sweep_events_of for identity events.
create or replace function sweep_identity_events(retention_days integer, ip_days integer, max_count integer)
returns integer language sql as $$
  select sweep_events_of(
           event_table => 'identity_event', retention_days => retention_days, ip_days => ip_days,
           max_count => max_count)
$$;
