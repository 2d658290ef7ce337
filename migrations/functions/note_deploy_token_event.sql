-- Trigger function: writes an event when a deploy token is created, used for the first time, or revoked. The event has
-- no account.
create or replace function note_deploy_token_event() returns trigger language plpgsql as $$
declare
  about jsonb := jsonb_build_object('name', new.name, 'deploy_token', new.id,
                                    'group', (select name from repository_group where id = new.group_id));
begin
  if tg_op = 'INSERT' then
    perform note_identity_event('deploy-token-created', null, null,
                                about || jsonb_build_object('scopes', new.scopes, 'resource_scope', new.resource_scope));
  elsif old.revoked_at is null and new.revoked_at is not null then
    perform note_identity_event('deploy-token-revoked', null, null, about);
  elsif old.last_used_at is null and new.last_used_at is not null then
    perform note_identity_event('deploy-token-first-used', null, null, about);
  end if;
  return null;
end
$$;
