-- Trigger function: refuses a name that is reserved for another group. It runs after the row is written, because only
-- then a concurrent rename or deletion is visible.
create or replace function refuse_reserved_group_name() returns trigger language plpgsql as $$
begin
  if exists (select from reserved_group_name
              where name = new.name and group_id <> new.id and reserved_until > now()) then
    raise unique_violation using constraint = 'group_name_is_reserved',
      message = 'the name belonged to another group';
  end if;
  return null;
end
$$;
