-- Like sweep_events, for identity events.
create or replace function sweep_identity_events(retention_days integer, ip_days integer, max_count integer)
returns integer language plpgsql set svc.event_sweep = 'on' as $$
declare
  removed integer;
  erased  integer;
begin
  delete from identity_event e
   using (select id, happened_at from identity_event order by id limit max_count) as oldest
   where e.id = oldest.id and oldest.happened_at < now() - make_interval(days => retention_days);
  get diagnostics removed = row_count;

  update identity_event e set address = null
    from (select id, happened_at from identity_event where address is not null order by id limit max_count) as oldest
   where e.id = oldest.id and oldest.happened_at < now() - make_interval(days => ip_days);
  get diagnostics erased = row_count;
  return removed + erased;
end
$$;
