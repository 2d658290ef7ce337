-- Erases the client IPs of events older than ip_days, and removes events older than retention_days (null: keeps all).
-- Each step looks only at the max_count oldest events, which have the smallest ids. Returns how many it changed. The
-- triggers of the append-only table allow changes while svc.event_sweep is on, which ends with the call.
create or replace function sweep_events(retention_days integer, ip_days integer, max_count integer)
returns integer language plpgsql set svc.event_sweep = 'on' as $$
declare
  removed integer;
  erased  integer;
begin
  delete from registry_event e
   using (select id, happened_at from registry_event order by id limit max_count) as oldest
   where e.id = oldest.id and oldest.happened_at < now() - make_interval(days => retention_days);
  get diagnostics removed = row_count;

  update registry_event e set address = null
    from (select id, happened_at from registry_event where address is not null order by id limit max_count) as oldest
   where e.id = oldest.id and oldest.happened_at < now() - make_interval(days => ip_days);
  get diagnostics erased = row_count;
  return removed + erased;
end
$$;
