-- The names of deleted accounts leave the details of events. The definitions are in functions/; those here are for the
-- accounts that were deleted before.

lock table registry_event, identity_event in row exclusive mode;

-- Erases the usernames and email addresses of a deleted account from the details of events, also former ones. In events
-- about roles, "deleted account" takes their place. Other accounts may have had a username before or after, so only
-- events of the time in which the account had it are changed. The triggers of the append-only tables allow it while
-- svc.event_sweep is on.
create function forget_account_names(
  the_account_id bigint, last_username text, created_at timestamptz, deleted_at timestamptz)
returns void language sql as $$
  select set_config('svc.event_sweep', 'on', true);

  with renamed as (
    select happened_at, details ->> 'from' as username, lag(happened_at) over (order by id) as former_end
      from identity_event
     where account_id = the_account_id and action = 'account-renamed' and details ? 'from'
  ), held as (
    select username, coalesce(former_end, created_at) as since, happened_at as until from renamed
    union all
    select last_username, coalesce((select max(happened_at) from renamed), created_at), deleted_at
  )
  update registry_event e set details = jsonb_set(e.details, '{username}', '"deleted account"')
    from held h
   where e.details ? 'username' and e.details ->> 'username' = h.username and e.happened_at between h.since and h.until;

  update identity_event set details = details - array['username', 'email', 'from', 'to']
   where account_id = the_account_id
     and action in ('account-created', 'account-renamed', 'account-deleted', 'email-changed', 'email-verified');

  select set_config('svc.event_sweep', 'off', true);
$$;

-- Trigger function for events: an update may only erase the client IP, or the names of a deleted account in the details.
create or replace function refuse_event_change() returns trigger language plpgsql as $$
declare
  former constant jsonb := to_jsonb(old);
begin
  if to_jsonb(new) in (
       jsonb_set(former, '{address}', 'null'),
       jsonb_set(former, '{details}', old.details - array['username', 'email', 'from', 'to']),
       jsonb_set(former, '{details,username}', '"deleted account"', false)) then
    return new;
  end if;
  raise exception '% is append-only', tg_table_name using errcode = 'insufficient_privilege';
end
$$;

select forget_account_names(
         account_id, details ->> 'username',
         coalesce((select happened_at from identity_event c
                    where c.account_id = d.account_id and c.action = 'account-created' limit 1), '-infinity'),
         happened_at)
  from identity_event d
 where action = 'account-deleted' and details ? 'username';
