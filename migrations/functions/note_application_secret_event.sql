-- Trigger function: writes an event when an application gets a new client secret. Its first secret writes no event.
create or replace function note_application_secret_event() returns trigger language plpgsql as $$
begin
  if exists (select from application_secret where application_id = new.application_id and secret_hash <> new.secret_hash) then
    perform note_identity_event('application-secret-rotated', null, new.application_id, '{}');
  end if;
  return null;
end
$$;
