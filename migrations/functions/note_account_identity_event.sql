-- Trigger function: writes an event when a provider's identity is linked to an account or unlinked. The deletion of an
-- account writes no such event.
create or replace function note_account_identity_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    perform note_identity_event('identity-linked', new.account_id, null, jsonb_build_object('provider', new.provider));
  elsif exists (select from account where id = old.account_id) then
    perform note_identity_event('identity-unlinked', old.account_id, null, jsonb_build_object('provider', old.provider));
  end if;
  return null;
end
$$;
