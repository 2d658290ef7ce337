-- Trigger function: notes that an authorization ended. The actor is its account, an administrator, or its application by
-- revoking a token.
create or replace function note_authorization_event() returns trigger language plpgsql as $$
begin
  perform note_identity_event('authorization-withdrawn', new.account_id, new.application_id, '{}');
  return null;
end
$$;
