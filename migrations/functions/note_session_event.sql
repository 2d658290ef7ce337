-- Trigger function: writes an event when a session begins or ends. The actor's `act` separates a sign-out from other
-- ends of a session. It also separates a sign-in from the new session after a password change, which writes no event. A
-- sign-in has the actor's proof: the method, the provider and the second factor. Expired sessions and the deletion of an account write no such event.
create or replace function note_session_event() returns trigger language plpgsql as $$
declare
  actor jsonb := nullif(current_setting('svc.actor', true), '')::jsonb;
  act text := actor ->> 'act';
begin
  if tg_op = 'INSERT' then
    if act is distinct from 'change-password' then
      perform note_identity_event('sign-in', new.account_id, null,
                                  jsonb_strip_nulls(jsonb_build_object(
                                    'session', left(encode(new.id_hash, 'hex'), 16),
                                    'method', actor #>> '{proof,method}',
                                    'provider', actor #>> '{proof,provider}',
                                    'second_factor', actor #>> '{proof,secondFactor}',
                                    'new_browser', case when actor ->> 'isNewBrowser' = 'true' then true end)));
    end if;
  elsif old.expires_at > now() and exists (select from account where id = old.account_id) then
    perform note_identity_event(case when act = 'sign-out' then 'sign-out' else 'session-ended' end, old.account_id, null,
                                jsonb_build_object('session', left(encode(old.id_hash, 'hex'), 16)));
  end if;
  return null;
end
$$;
