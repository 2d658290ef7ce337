-- Copies the events of the two former logs, with their ids and times. In steps, and locked, because the previous release
-- erases values in them. What it has erased or added already is here.
do $$
declare
  done_to bigint := 0;
  step_to bigint;
begin
  loop
    select max(id) into step_to
      from (select id from registry_event where id > done_to order by id limit 2000) as step;
    exit when step_to is null;
    insert into event (id, happened_at, action, repository_id, group_id, package, version, actor_id, token_kind, token_id,
                       address, details)
    select id, happened_at, action, repository_id, group_id, package, version, account_id, token_kind, token_id,
           address, details
      from registry_event
     where id > done_to and id <= step_to
     order by id
       for share
    on conflict do nothing;
    commit;
    done_to := step_to;
  end loop;
  done_to := 0;
  loop
    select max(id) into step_to
      from (select id from identity_event where id > done_to order by id limit 2000) as step;
    exit when step_to is null;
    insert into event (id, happened_at, action, account_id, application_id, actor_id, via, address, user_agent, request_id,
                       details)
    select id, happened_at, action, account_id, application_id, actor_id, via, address, user_agent, request_id,
           details
      from identity_event
     where id > done_to and id <= step_to
     order by id
       for share
    on conflict do nothing;
    commit;
    done_to := step_to;
  end loop;
  -- The first requests of the new release need good plans.
  analyze event;
end
$$;
