-- Writes the identity events of exchanged codes, with the time of the exchange. Removes from the pairs the data that
-- only the events needed. It reads at most max_count pairs, in the order of their ids, up to the horizon. Returns how
-- many pairs it read. Null when a running transaction may still add a pair below the horizon (move_exchange_horizon).
--
-- The pair itself stores whether its event is written. So no event is written twice, whatever the position says.
create or replace function note_exchanges(max_count integer) returns integer language plpgsql
-- Use indexes, even when PostgreSQL's statistics do not know the newest pairs.
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
as $$
declare
  first_id    bigint;
  last_id     bigint;
  unnoted_ids bigint[];
  seen        integer;
  events      jsonb;
begin
  select pair_id, horizon_id into first_id, last_id
    from sweep_position
   where name = 'noted_exchanges'
     -- A transaction id (xid) may be larger than every xid of this server. Then it comes from the server that the
     -- database was copied from.
     and (horizon_xid <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint
          or horizon_xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
     for update;
  if not found then
    return null;
  end if;

  select array_agg(id) filter (where is_unnoted), count(*), case when count(*) < max_count then last_id else max(id) end
    into unnoted_ids, seen, last_id
    from (select id, unnoted_exchange is not null as is_unnoted
            from token_pair
           where id > first_id and id <= last_id
           order by id
           limit max_count) as step;

  with exchange as materialized (
    select id, created_at, coalesce(grant_id, authorization_id) as grant_id, refresh_scopes, unnoted_exchange::jsonb as about
      from token_pair
     where id = any (unnoted_ids) and unnoted_exchange is not null
     order by id
       for no key update
  ), wiped as (
    update token_pair set unnoted_exchange = null where id = any (unnoted_ids) and unnoted_exchange is not null
  )
  select jsonb_agg(jsonb_build_object(
           'happened_at', created_at, 'action', 'token-created', 'account_id', about -> 'account',
           'application_id', about -> 'application', 'actor_id', about -> 'account', 'via', 'application',
           'address', about #> '{actor,ip}', 'user_agent', about #> '{actor,userAgent}',
           'request_id', about #> '{actor,requestId}',
           'details', jsonb_strip_nulls(jsonb_build_object(
             'scopes', coalesce(refresh_scopes, (select scopes from authorization_grant where id = grant_id))))) order by id)
    into events
    from exchange;
  if events is not null then
    perform insert_events(events);
  end if;

  -- No write while nothing happens.
  update sweep_position set pair_id = last_id where name = 'noted_exchanges' and pair_id < last_id;
  return seen;
end
$$;
