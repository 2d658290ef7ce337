-- Adds an identity event in the transaction of the change. The setting svc.actor holds the actor as JSON. Without that
-- setting, the event has no actor.
create or replace function note_identity_event(
  the_action text, the_account_id bigint, the_application_id bigint, the_details jsonb) returns void
language sql as $$
  insert into identity_event (action, account_id, application_id, actor_id, via, address, user_agent, request_id, details)
  select the_action, the_account_id, the_application_id, (actor ->> 'accountId')::bigint, actor ->> 'via',
         (actor ->> 'ip')::inet, actor ->> 'userAgent', actor ->> 'requestId', the_details
    from (select nullif(current_setting('svc.actor', true), '')::jsonb as actor) as acting
$$;
