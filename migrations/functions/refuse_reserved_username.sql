-- Trigger function: refuses the reserved username of a deleted account. It runs after the row is written, because only
-- then a concurrent deletion is visible.
create or replace function refuse_reserved_username() returns trigger language plpgsql as $$
begin
  if exists (select from reserved_username where username = new.username and reserved_until > now()) then
    raise unique_violation using constraint = 'username_is_reserved',
      message = 'the username belonged to an account that was deleted';
  end if;
  return null;
end
$$;
