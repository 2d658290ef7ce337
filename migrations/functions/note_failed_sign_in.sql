-- Counts a failed sign-in. The first one of an account from a network in an hour writes an identity event. The others
-- raise its number of attempts, and queue it for the log again. The account is null for a name that no account has.
create or replace function note_failed_sign_in(
  the_account_id bigint, the_network text, the_via text, the_address inet, the_user_agent text, the_request_id text)
returns void language plpgsql set svc.event_sweep = 'on' as $$
declare
  counted failed_sign_in;
begin
  -- Of concurrent attempts, the others wait here for the first one, and then find its event.
  insert into failed_sign_in as f (account_id, network, hour, event_id)
  values (coalesce(the_account_id, 0), left(the_network, 100), date_trunc('hour', now(), 'UTC'),
          nextval(pg_get_serial_sequence('identity_event', 'id')))
  on conflict (account_id, network, hour) do update set attempts = f.attempts + 1
  returning * into counted;
  if counted.attempts = 1 then
    insert into identity_event (id, action, account_id, via, address, user_agent, request_id) overriding system value
    values (counted.event_id, 'sign-in-failed', the_account_id, the_via, the_address, the_user_agent, the_request_id);
    return;
  end if;
  update identity_event
     set details = jsonb_build_object('attempts', counted.attempts, 'last_at', now())
   where id = counted.event_id;
  insert into unlogged_identity_event (event_id) values (counted.event_id) on conflict do nothing;
end
$$;
