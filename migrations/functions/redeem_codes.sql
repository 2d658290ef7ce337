-- Exchanges codes for their first token pairs (SPEC 4.2). Each element of the arrays is one call. All calls share one
-- transaction, but two calls with one code behave like two racing requests. Returns a row for each call, in any order.
-- The outcome is:
--   issued          the pair is stored; scope lists its scopes
--   invalid_client  the client's authentication failed, and no code was used
--   invalid_target  the code is not good for the requested resources; it stays valid
--   invalid_grant   the code is unknown, expired, or bound to another client, redirect_uri or code_challenge;
--                   its own client can still use it; or the code was used within the last 3 seconds
--   replayed        the code was used before; all its pairs are dead now
--
-- One statement decides about all calls: a call that may use its code (presented_codes) gets a pair if its update finds
-- the code unused and not expired. Only what it refuses is explained (explain_refused_codes).
--
-- An actor is JSON text that describes the sender of the request, or null. It waits in unnoted_exchange until a job writes
-- the event (note_exchanges), because an insert of the event here would cost as much as the pair.
--
-- Every function that takes several locks takes them in this order: codes by hash, pairs by id, authorizations by id. A
-- grant is only updated by a transaction that holds the lock of its authorization.
create or replace function redeem_codes(
  client_ids text[], secret_hashes bytea[], code_hashes bytea[], redirect_uris text[], code_challenges text[],
  access_hashes bytea[], refresh_hashes bytea[], actors text[], access_seconds integer, refresh_seconds integer,
  asked_resources text[])
returns table (call_number integer, outcome text, scope text, authorization_id bigint)
language plpgsql
-- Use one plan with indexes for all calls. A plan for each length of the arrays takes longer than the calls. A plan
-- that was made for small tables would stay when the tables grow.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  issued_count bigint;
  replayed_hashes bytea[] := '{}';
begin
  return query
  with call as materialized (
    select n, code_hash, scopes, authorization_id, grant_id, epoch, grant_scopes, account_id, application_id,
           refresh_resources, access_resources
      from presented_codes(client_ids, secret_hashes, code_hashes, redirect_uris, code_challenges, asked_resources)
     where is_granted and is_targeted
     order by code_hash, n
  ), used as (
    update authorization_code o
       set redeemed_at = now()
      from call
     -- "is true" keeps the index of expires_at out of the plan: of a table without statistics, PostgreSQL would read all live
     -- codes with it.
     where o.code_hash = call.code_hash and o.redeemed_at is null and (o.expires_at > now()) is true
    returning call.*
  ), made as (
    insert into token_pair (authorization_id, grant_id, epoch, code_hash, access_hash, access_expires_at, refresh_hash,
                            refresh_scopes, refresh_expires_at, refresh_resources, access_resources)
    select authorization_id, grant_id, epoch, code_hash, access_hashes[n], now() + make_interval(secs => access_seconds),
           refresh_hashes[n], nullif(scopes, grant_scopes), now() + make_interval(secs => refresh_seconds),
           refresh_resources, access_resources
      from used
  ), queued as (
    insert into unnoted_exchange (account_id, application_id, grant_id, scopes, actor)
    select account_id, application_id, grant_id, nullif(scopes, grant_scopes), actors[n]
      from used
  )
  select n::integer, 'issued', array_to_string(scopes, ' '), authorization_id from used;
  get diagnostics issued_count = row_count;
  if issued_count = cardinality(client_ids) then
    return;
  end if;

  for call_number, outcome in
    select * from explain_refused_codes(client_ids, secret_hashes, code_hashes, redirect_uris, code_challenges,
                                        refresh_hashes, asked_resources)
  loop
    return next;
    if outcome = 'replayed' then
      replayed_hashes := replayed_hashes || code_hashes[call_number];
    end if;
  end loop;

  -- The view granted_pair treats the pairs of a replayed code as ended.
  if cardinality(replayed_hashes) > 0 then
    perform from account_authorization
      where id in (select o.authorization_id from authorization_code o where o.code_hash = any (replayed_hashes))
      order by id for no key update;
    update authorization_grant g
       set replayed_codes = array(select unnest(g.replayed_codes)
                                  union
                                  select o.code_hash from authorization_code o
                                   where o.code_hash = any (replayed_hashes) and coalesce(o.grant_id, o.authorization_id) = g.id)
     where g.id in (select coalesce(o.grant_id, o.authorization_id) from authorization_code o
                     where o.code_hash = any (replayed_hashes) and array_position(g.replayed_codes, o.code_hash) is null);
  end if;
end
$$;
