-- Erases the client IPs of events older than ip_days, and removes events older than retention_days (null: keeps all).
-- Each step looks only at the max_count oldest events, which have the smallest ids. Returns how many it changed. The
-- triggers of the append-only tables allow changes while svc.event_sweep is on. The setting ends with the call.
create or replace function sweep_events_of(
  event_table regclass, retention_days integer, ip_days integer, max_count integer)
returns integer language plpgsql set svc.event_sweep = 'on' as $$
declare
  removed integer;
  erased  integer;
begin
  execute format(
    'delete from %1$s e
      using (select id, happened_at from %1$s order by id limit $1) as oldest
      where e.id = oldest.id and oldest.happened_at < now() - make_interval(days => $2)', event_table)
    using max_count, retention_days;
  get diagnostics removed = row_count;

  execute format(
    'update %1$s e set address = null
       from (select id, happened_at from %1$s where address is not null order by id limit $1) as oldest
      where e.id = oldest.id and oldest.happened_at < now() - make_interval(days => $2)', event_table)
    using max_count, ip_days;
  get diagnostics erased = row_count;
  return removed + erased;
end
$$;
