-- Writes the events of at most max_count exchanged codes, with the time of the exchange, and returns how many. Taking an
-- exchange from the queue and writing its event is one transaction.
create or replace function note_exchanges(max_count integer) returns integer language plpgsql
-- Use indexes, also without statistics.
set enable_seqscan = off
as $$
declare
  seen integer;
  events jsonb;
begin
  -- A pair that the redeem_codes of the previous release has made keeps the data of its event.
  with pair as materialized (
    select id, created_at, coalesce(grant_id, authorization_id) as grant_id, refresh_scopes,
           unnoted_exchange::jsonb as about
      from token_pair
     where unnoted_exchange is not null
     order by id
     limit max_count
       for no key update skip locked
  ), wiped as (
    update token_pair set unnoted_exchange = null where id = any (array(select id from pair))
  )
  insert into unnoted_exchange (happened_at, account_id, application_id, grant_id, scopes, actor)
  select created_at, (about -> 'account')::bigint, (about -> 'application')::bigint, grant_id, refresh_scopes,
         about ->> 'actor'
    from pair;

  with taken as (
    delete from unnoted_exchange
     where ctid = any (array(select ctid from unnoted_exchange limit max_count for update skip locked))
    returning *
  )
  select count(*),
         jsonb_agg(jsonb_build_object(
           'happened_at', happened_at, 'action', 'token-created', 'account_id', account_id,
           'application_id', application_id, 'actor_id', account_id, 'via', 'application',
           'address', actor::jsonb -> 'ip', 'user_agent', actor::jsonb -> 'userAgent',
           'request_id', actor::jsonb -> 'requestId',
           'details', jsonb_strip_nulls(jsonb_build_object(
             'scopes', coalesce(scopes, (select g.scopes from authorization_grant g where g.id = grant_id)))))
           order by happened_at)
    into seen, events
    from taken;
  if events is not null then
    perform insert_events(events);
  end if;
  return seen;
end
$$;
