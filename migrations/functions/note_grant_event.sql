-- Trigger function: writes an event when an account authorizes an application.
create or replace function note_grant_event() returns trigger language plpgsql as $$
begin
  perform note_identity_event('consent-given', new.account_id, new.application_id,
                              jsonb_build_object('scopes', new.scopes, 'resource_scope', new.resource_scope));
  return null;
end
$$;
