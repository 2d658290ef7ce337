-- Trigger function: refuses a name that another repository of the group had before.
create or replace function refuse_reserved_repository_name() returns trigger language plpgsql as $$
begin
  if exists (select from repository_alias
              where group_id = new.group_id and name = new.name and repository_id <> new.id) then
    raise unique_violation using constraint = 'repository_name_is_reserved',
      message = 'the name was the name of another repository';
  end if;
  return null;
end
$$;
