-- The username of a deleted account is free again after 90 days, so that nobody is mistaken for its former owner.
create table reserved_username (
  username       text primary key,
  reserved_until timestamptz not null
);

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

create trigger username_is_not_reserved after insert or update of username on account
  for each row execute function refuse_reserved_username();
