-- Trigger function for events: an update may only erase the client IP.
create or replace function refuse_event_change() returns trigger language plpgsql as $$
begin
  if new.address is null and to_jsonb(new) = jsonb_set(to_jsonb(old), '{address}', 'null') then
    return new;
  end if;
  raise exception '% is append-only', tg_table_name using errcode = 'insufficient_privilege';
end
$$;
