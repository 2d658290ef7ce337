-- Trigger function: checked after the row is written, when a deletion that ran at the same time can be seen.
create or replace function refuse_reserved_username() returns trigger language plpgsql as $$
begin
  if exists (select from reserved_username where username = new.username and reserved_until > now()) then
    raise unique_violation using constraint = 'username_is_reserved',
      message = 'the username belonged to an account that was deleted';
  end if;
  return null;
end
$$;
