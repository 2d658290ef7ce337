-- Trigger function for events: an update may only erase the client IP, erase the names of a deleted account in the
-- details, raise the attempts of a counted event (note_counted_event), or add the group of an event of before.
create or replace function refuse_event_change() returns trigger language plpgsql as $$
declare
  former constant jsonb := to_jsonb(old);
begin
  if to_jsonb(new) in (
       jsonb_set(former, '{address}', 'null'),
       jsonb_set(former, '{details}', old.details - array['username', 'email', 'from', 'to']),
       jsonb_set(former, '{details,username}', '"deleted account"', false)) then
    return new;
  end if;
  if old.action in ('sign-in-failed', 'sign-in-locked', 'second-factor-failed', 'password-reset-requested')
     and to_jsonb(new) = jsonb_set(former, '{details}', new.details)
     and new.details - array['attempts', 'last_at'] = old.details - array['attempts', 'last_at']
     and (new.details ->> 'attempts')::integer > coalesce((old.details ->> 'attempts')::integer, 1) then
    return new;
  end if;
  if old.in_group_id is null and to_jsonb(new) = jsonb_set(former, '{in_group_id}', to_jsonb(new.in_group_id)) then
    return new;
  end if;
  raise exception '% is append-only', tg_table_name using errcode = 'insufficient_privilege';
end
$$;
