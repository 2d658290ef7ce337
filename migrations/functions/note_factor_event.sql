-- Trigger function: writes an event when an authenticator app or a passkey is added or removed. An app is added when
-- the user enters its first correct code. The deletion of an account writes no such event.
create or replace function note_factor_event() returns trigger language plpgsql as $$
declare
  details jsonb;
begin
  if tg_table_name = 'passkey' then
    details := jsonb_build_object('kind', 'passkey', 'name', case when tg_op = 'DELETE' then old.name else new.name end);
  else
    if (case when tg_op = 'DELETE' then old.confirmed_at is null
            when tg_op = 'INSERT' then new.confirmed_at is null
            else old.confirmed_at is not null or new.confirmed_at is null end) then
      return null;
    end if;
    details := jsonb_build_object('kind', 'totp');
  end if;
  if tg_op <> 'DELETE' then
    perform note_identity_event('second-factor-added', new.account_id, null, details);
  elsif exists (select from account where id = old.account_id) then
    perform note_identity_event('second-factor-removed', old.account_id, null, details);
  end if;
  return null;
end
$$;
