-- Returns whether the site or a group requires a second factor by now that the account does not have. site_rule is whom the
-- site requires it of, from site_from on.
create or replace function lacks_due_factor(the_account_id bigint, site_rule text, site_from timestamptz) returns boolean
language sql stable as $$
  select not has_second_factor(the_account_id)
     and (exists (select from second_factor_requirement
                   where account_id = the_account_id and required_from <= now())
          or exists (select from account
                      where id = the_account_id and (site_rule = 'all' or (site_rule = 'admins' and is_admin))
                        and coalesce(site_from, '-infinity') <= now()))
$$;
