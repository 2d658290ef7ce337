-- Trigger function: writes events about an account. After its deletion no event contains its name. A new hash of the same
-- password, with newer parameters, is no password change: its statement sets svc.is_rehash.
create or replace function note_account_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    perform note_identity_event('account-created', new.id, null, jsonb_build_object('username', new.username));
    return null;
  elsif tg_op = 'DELETE' then
    perform note_identity_event('account-deleted', old.id, null, '{}');
    perform forget_names(old.id, old.username, created_at => old.created_at, deleted_at => now());
    return null;
  end if;
  if new.username <> old.username then
    perform note_identity_event('account-renamed', new.id, null,
                                jsonb_build_object('from', old.username, 'to', new.username));
  end if;
  if new.password_hash is distinct from old.password_hash and current_setting('svc.is_rehash', true) is distinct from 'on' then
    perform note_identity_event('password-changed', new.id, null, '{}');
  end if;
  if new.email is distinct from old.email then
    -- The former address gets a notice if it was verified.
    perform note_identity_event('email-changed', new.id, null,
                                jsonb_build_object('from', old.email, 'to', new.email,
                                                   'from_was_verified', old.email_verified_at is not null));
  end if;
  if new.email_verified_at is not null and old.email_verified_at is null then
    perform note_identity_event('email-verified', new.id, null, jsonb_build_object('email', new.email));
  end if;
  if new.is_admin <> old.is_admin then
    perform note_identity_event(case when new.is_admin then 'admin-granted' else 'admin-removed' end, new.id, null, '{}');
  end if;
  if (new.disabled_at is null) <> (old.disabled_at is null) then
    perform note_identity_event(case when new.disabled_at is null then 'account-enabled' else 'account-disabled' end,
                                new.id, null, '{}');
  end if;
  return null;
end
$$;
