-- Gives the events of before their groups, in steps. Those of repositories that are gone have none.
do $$
declare
  done_to bigint := 0;
  step_to bigint;
begin
  loop
    select max(id) into step_to
      from (select id from event
             where (repository_id is not null or group_id is not null) and id > done_to order by id limit 2000) as step;
    exit when step_to is null;
    perform set_config('svc.event_sweep', 'on', true);
    update event e
       set in_group_id = coalesce(e.group_id, r.group_id, r.deleted_from_id)
      from event o left join repository r on r.id = o.repository_id
     where o.id = e.id and (o.repository_id is not null or o.group_id is not null)
       and (e.repository_id is not null or e.group_id is not null) and e.id > done_to and e.id <= step_to
       and e.in_group_id is null and coalesce(e.group_id, r.group_id, r.deleted_from_id) is not null;
    commit;
    done_to := step_to;
  end loop;
end
$$;
