-- Counts an event that somebody can repeat without end. The first one of an account from a network in an hour writes an
-- identity event. The others raise its number of attempts, and queue it for the log again. The account is null for a
-- name that no account has. The kind is that of a second factor, or empty. The actor has the members that
-- note_identity_event reads.
create or replace function note_counted_event(
  the_action text, the_account_id bigint, the_network text, the_kind text, actor jsonb)
returns void language plpgsql set svc.event_sweep = 'on' as $$
declare
  counted counted_event;
begin
  -- Of concurrent attempts, the others wait here for the first one, and then find its event.
  insert into counted_event as c (action, account_id, network, kind, hour, event_id)
  values (the_action, coalesce(the_account_id, 0), left(the_network, 100), the_kind, date_trunc('hour', now(), 'UTC'),
          nextval(pg_get_serial_sequence('identity_event', 'id')))
  on conflict (action, account_id, network, kind, hour) do update set attempts = c.attempts + 1
  returning * into counted;
  if counted.attempts = 1 then
    insert into identity_event (id, action, account_id, actor_id, via, address, user_agent, request_id, details)
    overriding system value
    values (counted.event_id, the_action, the_account_id, (actor ->> 'accountId')::bigint, actor ->> 'via',
            (actor ->> 'ip')::inet, actor ->> 'userAgent', actor ->> 'requestId',
            jsonb_strip_nulls(jsonb_build_object('kind', nullif(the_kind, ''))));
    return;
  end if;
  update identity_event
     set details = details || jsonb_build_object('attempts', counted.attempts, 'last_at', now())
   where id = counted.event_id;
  insert into unlogged_identity_event (event_id) values (counted.event_id) on conflict do nothing;
end
$$;
