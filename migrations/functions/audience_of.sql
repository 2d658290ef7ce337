-- Returns the accounts that an event of a repository, a group or an account is told to, as they are now: nobody of a
-- deleted repository, and no watcher who may not read it. PostgreSQL inlines it, so a caller that asks about one account
-- reads only the rows of it. Whether a person wants a mail and can get one is the caller's question.
create or replace function audience_of(the_audience text, the_repository_id bigint, the_group_id bigint, the_account_id bigint)
returns table (account_id bigint) language sql stable parallel safe as $$
  select m.account_id
    from counted_group_member m
   where m.group_id = coalesce(the_group_id, (select r.group_id from repository r where r.id = the_repository_id))
     and m.role >= (case the_audience when 'developers' then 'developer'
                                      when 'admins' then 'admin'
                                      when 'admins and watchers' then 'admin' end)::member_role
   union
  select m.account_id
    from counted_repository_member m join repository r on r.id = m.repository_id and r.group_id is not null
   where m.repository_id = the_repository_id
     and m.role >= (case the_audience when 'developers' then 'developer'
                                      when 'admins' then 'admin'
                                      when 'admins and watchers' then 'admin' end)::member_role
   union
  select w.account_id
    from watched_repository w
    join repository r on r.id = w.repository_id and r.group_id is not null
   cross join lateral role_in_repository(w.account_id, r.group_id, r.id) own
   where the_audience in ('watchers', 'admins and watchers') and w.repository_id = the_repository_id
     and (r.visibility = 'public' or own.role is not null)
   union
  select w.account_id
    from repository r
    join watched_group w on w.group_id = r.group_id
   cross join lateral role_in_repository(w.account_id, r.group_id, r.id) own
   where the_audience in ('watchers', 'admins and watchers') and r.id = the_repository_id
     and (r.visibility = 'public' or own.role is not null)
   union
  select a.id from account a
   where a.is_admin and (the_audience = 'site' or (the_audience = 'account or site' and the_account_id is null))
   union
  select a.id from account a where the_audience in ('account', 'account or site') and a.id = the_account_id
$$;
