-- The release of a staged version gets an action of its own. It had that of the end of a quarantine.
select set_config('svc.event_sweep', 'on', true);

with former as (
  delete from event where action = 'release' and details ? 'stage' returning *
)
insert into event
select e.*
  from former, jsonb_populate_record(null::event, to_jsonb(former) || '{"action": "release-stage"}') as e;

select set_config('svc.event_sweep', 'off', true);
