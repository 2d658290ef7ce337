-- Counts an event that somebody can repeat without end. The first one of an account from a network in an hour writes an
-- identity event. The others raise its number of attempts, and queue it for the log again. The account is null for a
-- name that no account has. The kind is that of a second factor, or empty. The actor has the members that
-- insert_events reads.
--
-- No function has svc.event_sweep in its header: PostgreSQL lets only superusers create such a function.
create or replace function note_counted_event(
  the_action text, the_account_id bigint, the_network text, the_kind text, actor jsonb)
returns void language plpgsql as $$
declare
  counted counted_event;
begin
  -- Of concurrent attempts, the others wait here for the first one, and then find its event.
  insert into counted_event as c (action, account_id, network, kind, hour, event_id)
  values (the_action, coalesce(the_account_id, 0), left(the_network, 100), the_kind, date_trunc('hour', now(), 'UTC'),
          nextval('event_id_seq'))
  on conflict (action, account_id, network, kind, hour) do update set attempts = c.attempts + 1
  returning * into counted;
  if counted.attempts = 1 then
    perform insert_events(
      jsonb_build_array(jsonb_build_object(
        'id', counted.event_id, 'action', the_action, 'account_id', the_account_id,
        'details', jsonb_strip_nulls(jsonb_build_object('kind', nullif(the_kind, ''))))),
      actor);
    return;
  end if;
  perform set_config('svc.event_sweep', 'on', true);
  update event
     set details = details || jsonb_build_object('attempts', counted.attempts, 'last_at', now())
   where id = counted.event_id and repository_id is null and group_id is null;
  perform set_config('svc.event_sweep', 'off', true);
  insert into unlogged_identity_event (event_id) values (counted.event_id) on conflict do nothing;
end
$$;
