-- Inserts an identity event for a trigger. The setting svc.actor has the actor as JSON. Without that setting, the event has
-- no actor.
create or replace function note_identity_event(
  the_action text, the_account_id bigint, the_application_id bigint, the_details jsonb) returns void
language sql as $$
  select insert_events(
           jsonb_build_array(jsonb_build_object(
             'action', the_action, 'account_id', the_account_id, 'application_id', the_application_id, 'details', the_details)),
           nullif(current_setting('svc.actor', true), '')::jsonb)
$$;
