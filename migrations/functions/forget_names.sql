-- Erases the usernames and email addresses of a deleted account from the details of events, also former ones. In events
-- about roles, "deleted account" takes their place. Other accounts may have had a username before or after, so only
-- events of the time in which the account had it are changed. The triggers of the table allow it while
-- svc.event_sweep is on.
create or replace function forget_names(
  the_account_id bigint, last_username text, created_at timestamptz, deleted_at timestamptz)
returns void language sql as $$
  select set_config('svc.event_sweep', 'on', true);

  with renamed as (
    select happened_at, details ->> 'from' as username, lag(happened_at) over (order by id) as former_end
      from event
     where account_id = the_account_id and action = 'account-renamed' and details ? 'from'
  ), held as (
    select username, coalesce(former_end, created_at) as since, happened_at as until from renamed
    union all
    select last_username, coalesce((select max(happened_at) from renamed), created_at), deleted_at
  )
  update event e set details = jsonb_set(e.details, '{username}', '"deleted account"')
    from held h
   where (e.repository_id is not null or e.group_id is not null)
     and e.details ? 'username' and e.details ->> 'username' = h.username and e.happened_at between h.since and h.until;

  update event set details = details - array['username', 'email', 'from', 'to']
   where account_id = the_account_id
     and action in ('account-created', 'account-renamed', 'account-deleted', 'email-changed', 'email-verified');

  select set_config('svc.event_sweep', 'off', true);
$$;
