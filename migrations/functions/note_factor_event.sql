-- Trigger function: notes that an authenticator app is added, which is when its first code was right, or removed. The
-- factors of a deleted account only disappear.
create or replace function note_factor_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    if old.confirmed_at is not null and exists (select from account where id = old.account_id) then
      perform note_identity_event('second-factor-removed', old.account_id, null, jsonb_build_object('kind', 'totp'));
    end if;
  elsif new.confirmed_at is not null and (tg_op = 'INSERT' or old.confirmed_at is null) then
    perform note_identity_event('second-factor-added', new.account_id, null, jsonb_build_object('kind', 'totp'));
  end if;
  return null;
end
$$;
