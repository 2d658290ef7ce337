-- Trigger function: refuses the reserved username of another account, which was renamed or deleted. It runs after the row
-- is written, because only then a concurrent rename or deletion is visible.
create or replace function refuse_reserved_username() returns trigger language plpgsql as $$
begin
  if exists (select from reserved_username
              where username = new.username and reserved_until > now() and account_id is distinct from new.id) then
    raise unique_violation using constraint = 'username_is_reserved',
      message = 'the username belonged to another account';
  end if;
  return null;
end
$$;
