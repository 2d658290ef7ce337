-- Erases the client IPs of events older than ip_days, and removes events older than retention_days (null: keeps all), at
-- most max_count each. Returns how many it changed. The triggers of the table allow changes while svc.event_sweep is on.
create or replace function sweep_events(retention_days integer, ip_days integer, max_count integer)
returns integer language plpgsql as $$
declare
  removed integer;
  erased  integer;
begin
  perform set_config('svc.event_sweep', 'on', true);
  delete from event
   where ctid = any (array(select ctid from event
                            where happened_at < now() - make_interval(days => retention_days)
                            order by happened_at limit max_count));
  get diagnostics removed = row_count;

  update event set address = null
   where ctid = any (array(select ctid from event
                            where address is not null and happened_at < now() - make_interval(days => ip_days)
                            order by happened_at limit max_count));
  get diagnostics erased = row_count;
  perform set_config('svc.event_sweep', 'off', true);
  return removed + erased;
end
$$;
