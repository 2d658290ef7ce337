-- Trigger function: writes an event when a personal access token is created, used for the first time, or revoked.
create or replace function note_personal_token_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    perform note_identity_event('token-created', new.account_id, null,
                                jsonb_build_object('name', new.name, 'scopes', new.scopes, 'resource_scope', new.resource_scope)
                                || case when new.is_admin then '{"admin": true}'::jsonb else '{}' end);
  elsif old.revoked_at is null and new.revoked_at is not null then
    perform note_identity_event('token-revoked', new.account_id, null, jsonb_build_object('name', new.name));
  elsif old.last_used_at is null and new.last_used_at is not null then
    perform note_identity_event('token-first-used', new.account_id, null, jsonb_build_object('name', new.name));
  end if;
  return null;
end
$$;
