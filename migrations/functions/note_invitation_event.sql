-- Trigger function: writes an event when an invitation is created, withdrawn or accepted. A requested sign-up writes
-- its first event when it is accepted, because anybody can request one.
create or replace function note_invitation_event() returns trigger language plpgsql as $$
declare
  details jsonb := jsonb_strip_nulls(jsonb_build_object(
    'email', new.email, 'role', new.role,
    'group', (select name from repository_group where id = new.group_id)));
begin
  if tg_op = 'INSERT' then
    if new.made_by <> 'sign-up' then
      perform note_identity_event('invitation-created', new.inviter_id, null, details);
    end if;
  elsif old.accepted_at is null and new.accepted_at is not null then
    perform note_identity_event('invitation-accepted', new.accepted_by, null, details);
  elsif old.withdrawn_at is null and new.withdrawn_at is not null then
    perform note_identity_event('invitation-withdrawn', new.inviter_id, null, details);
  end if;
  return null;
end
$$;
