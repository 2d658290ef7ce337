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
