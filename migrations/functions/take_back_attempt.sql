-- Subtracts one attempt from each key, and deletes the cleared keys. It locks each row before it reads the count. In a
-- single statement, the decision and the subtraction could see different counts, and a count of 0 breaks the check of the
-- table. The locks are taken in the order of count_attempt.
create or replace function take_back_attempt(keys bytea[], cleared_keys bytea[]) returns void
language plpgsql as $$
declare
  counted auth_failure;
begin
  for i in 1 .. cardinality(keys) loop
    select * into counted from auth_failure where key_hash = keys[i] for update;
    if counted.failures = 1 or keys[i] = any (cleared_keys) then
      delete from auth_failure where key_hash = keys[i];
    else
      update auth_failure set failures = failures - 1 where key_hash = keys[i];
    end if;
  end loop;
end
$$;
