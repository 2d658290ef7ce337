-- Returns whether the account has a second factor.
create or replace function has_second_factor(the_account_id bigint) returns boolean
language sql stable parallel safe as $$
  select exists (select from second_factor where account_id = the_account_id)
$$;
