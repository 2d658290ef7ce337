-- Trigger function: reserves the former name of a renamed or deleted group for 90 days. Only the same group may take it
-- back before.
create or replace function reserve_group_name() returns trigger language plpgsql as $$
begin
  delete from reserved_group_name where reserved_until < now();
  insert into reserved_group_name (name, group_id, reserved_until) values (old.name, old.id, now() + interval '90 days')
  on conflict (name) do update set group_id = excluded.group_id, reserved_until = excluded.reserved_until;
  return null;
end
$$;
