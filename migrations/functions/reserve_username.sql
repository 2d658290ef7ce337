-- Trigger function: reserves the former username of a renamed account for 90 days. Only the same account may take it
-- back before. An account reserves its 10 latest names, so that nobody can reserve any number of names.
create or replace function reserve_username() returns trigger language plpgsql as $$
begin
  delete from reserved_username where reserved_until < now();
  insert into reserved_username (username, account_id, reserved_until)
  values (old.username, old.id, now() + interval '90 days')
  on conflict (username) do update set account_id = excluded.account_id, reserved_until = excluded.reserved_until;
  delete from reserved_username
   where username in (select username from reserved_username
                       where account_id = old.id and username <> new.username
                       order by reserved_until desc, username offset 10);
  return null;
end
$$;
