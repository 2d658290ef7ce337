-- Returns whether each of these resources exists for an account: the API, everything, and the registries of the repositories
-- that it may see. Nobody learns which others exist.
create or replace function are_resources_of(the_account_id bigint, asked text[]) returns boolean
language sql stable as $$
  select not exists (
    select from unnest(asked) as one
     where one not in ('/', '/api')
       and not exists (
         select from repository r
          where one like '/%/%/-/packages/'
            and r.id = repository_at(split_part(one, '/', 2), split_part(one, '/', 3))
            and (r.visibility = 'public'
                 or (select role from role_as_member(the_account_id, r.group_id, r.id)) is not null)))
$$;
