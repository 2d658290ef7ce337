-- Trigger function: writes an event when an authorization ends. The actor is its account, an administrator, or the
-- application that revoked a token.
create or replace function note_authorization_event() returns trigger language plpgsql as $$
begin
  perform note_identity_event('authorization-withdrawn', new.account_id, new.application_id, '{}');
  return null;
end
$$;
