-- Returns whether the account may lose one of its second factors: it has another one, or nobody requires one, now or after
-- a grace period. A caller that removes a factor locks the account in an earlier statement, so that of two removals the second sees the first.
create or replace function may_lose_second_factor(the_account_id bigint, site_requires_it boolean) returns boolean
language sql stable as $$
  select (select count(*) from second_factor where account_id = the_account_id) > 1
      or (not site_requires_it
          and not exists (select from second_factor_requirement where account_id = the_account_id))
$$;
