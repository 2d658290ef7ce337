-- Trigger function for events: an update may only erase the client IP, erase the names of a deleted account in the
-- details, or raise the attempts of a failed sign-in.
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
  if old.action = 'sign-in-failed'
     and to_jsonb(new) = jsonb_set(former, '{details}', new.details)
     and (new.details ->> 'attempts')::integer > coalesce((old.details ->> 'attempts')::integer, 1) then
    return new;
  end if;
  raise exception '% is append-only', tg_table_name using errcode = 'insufficient_privilege';
end
$$;
