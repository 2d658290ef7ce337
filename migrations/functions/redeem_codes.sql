-- Exchanges codes for their first token pairs (SPEC 4.2). Each element of the arrays is one call. All calls share one
-- transaction, but two calls with one code behave like two racing requests. Returns a row for each call, in any order.
-- The outcome is:
--   issued          the pair is stored; scope lists its scopes
--   invalid_client  the client's authentication failed, and no code was used
--   invalid_grant   the code is unknown, expired, or bound to another client, redirect_uri or code_challenge;
--                   its own client can still use it; or the code was used within the last 3 seconds
--   replayed        the code was used before; all its pairs are dead now
--
-- An actor is JSON text that describes the sender of the request, or null. The pair keeps the actor until a job writes
-- the identity event (note_exchanges), because an insert of the event here would cost as much as the pair.
--
-- One statement exchanges all codes that are new and valid. Only the other calls are handled one by one, like in
-- refresh_pairs.
--
-- Every function that takes several locks takes them in this order: codes by hash, pairs by id, authorizations by id. A
-- grant is only updated by a transaction that holds the lock of its authorization.
create or replace function redeem_codes(
  client_ids text[], secret_hashes bytea[], code_hashes bytea[], redirect_uris text[], code_challenges text[],
  access_hashes bytea[], refresh_hashes bytea[], actors text[], access_seconds integer, refresh_seconds integer)
returns table (call_number integer, outcome text, scope text, authorization_id bigint)
language plpgsql
-- Use one plan with indexes for all calls. A plan for each length of the arrays takes longer than the calls. A plan
-- that was made for small tables would stay when the tables grow.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  call record;
  used_at timestamptz;
  issued_count bigint;
  replayed_hashes bytea[] := '{}';
begin
  -- refresh_pairs describes which valid calls this statement may leave to the loop.
  return query
  with call as materialized (
    select c.n, c.access_hash, c.refresh_hash, c.actor, code.*
      from unnest(client_ids, secret_hashes, code_hashes, redirect_uris, code_challenges, access_hashes, refresh_hashes,
                  actors)
           with ordinality as c (client_id, secret_hash, code_hash, redirect_uri, code_challenge, access_hash,
                                 refresh_hash, actor, n)
     cross join lateral (
       select o.ctid as row_location, o.code_hash, o.authorization_id,
              narrowed_scopes(o.scopes, g.scopes) as scopes, g.id as grant_id, g.epoch,
              g.scopes as grant_scopes, g.account_id, g.application_id
         from authorization_code o
         join authorization_grant g on g.id = coalesce(o.grant_id, o.authorization_id)
        where o.code_hash = c.code_hash and o.redeemed_at is null
          and (c.redirect_uri <> o.redirect_uri) is not true
          and c.code_challenge is not distinct from o.code_challenge
          and g.ended_at is null and (select disabled_at is null from account where id = g.account_id)
          and narrowed_scopes(o.scopes, g.scopes) <> '{}'
        limit 1) as code
     where code.application_id = (select application_id from application_credential
                                   where secret_hash = c.secret_hash and client_id = c.client_id)
     order by c.code_hash, c.n
  ), used as (
    update authorization_code o
       set redeemed_at = now()
      from call
     where o.ctid = call.row_location and o.redeemed_at is null and o.expires_at > now()
    returning call.*
  ), made as (
    -- A pair takes its id after the update of its code: move_exchange_horizon relies on the order.
    insert into token_pair (authorization_id, grant_id, epoch, code_hash, access_hash, access_expires_at, refresh_hash,
                            refresh_scopes, refresh_expires_at, unnoted_exchange)
    select authorization_id, grant_id, epoch, code_hash, access_hash, now() + make_interval(secs => access_seconds),
           refresh_hash, nullif(scopes, grant_scopes), now() + make_interval(secs => refresh_seconds),
           '{"account": ' || account_id || ', "application": ' || application_id
             || ', "actor": ' || coalesce(actor, 'null') || '}'
      from used
  )
  select n::integer, 'issued', array_to_string(scopes, ' '), authorization_id from used;
  get diagnostics issued_count = row_count;
  if issued_count = cardinality(client_ids) then
    return;
  end if;

  for call in
    select c.*, code.*,
           (select application_id from application_credential
             where secret_hash = c.secret_hash and client_id = c.client_id) as client
      from unnest(client_ids, secret_hashes, code_hashes, redirect_uris, code_challenges, access_hashes, refresh_hashes,
                  actors)
           with ordinality as c (client_id, secret_hash, code_hash, redirect_uri, code_challenge, access_hash,
                                 refresh_hash, actor, n)
      left join lateral (
        select o.authorization_id, narrowed_scopes(o.scopes, g.scopes) as scopes,
               o.redirect_uri as bound_redirect_uri, o.code_challenge as bound_challenge,
               g.id as grant_id, g.epoch, g.scopes as grant_scopes, g.account_id, g.application_id,
               g.ended_at is null and (select disabled_at is null from account where id = g.account_id)
                 and narrowed_scopes(o.scopes, g.scopes) <> '{}' as is_granted
          from authorization_code o
          join authorization_grant g on g.id = coalesce(o.grant_id, o.authorization_id)
         where o.code_hash = c.code_hash
         limit 1) as code on true
     where not exists (select from token_pair where refresh_hash = c.refresh_hash)
     order by c.code_hash, c.n
  loop
    call_number := call.n;
    scope := null;
    authorization_id := null;
    if call.client is null then
      outcome := 'invalid_client';
      return next;
      continue;
    end if;

    -- Only the code's own client may use the code or learn of a replay. It must send everything that the code is bound
    -- to.
    outcome := 'invalid_grant';
    if call.application_id is distinct from call.client or not call.is_granted
       or call.redirect_uri <> call.bound_redirect_uri
       or call.code_challenge is distinct from call.bound_challenge then
      return next;
      continue;
    end if;

    -- Write this before the pair takes its id: move_exchange_horizon relies on the order.
    update authorization_code
       set redeemed_at = now()
     where code_hash = call.code_hash and redeemed_at is null and expires_at > now();
    if found then
      insert into token_pair (authorization_id, grant_id, epoch, code_hash, access_hash, access_expires_at, refresh_hash,
                              refresh_scopes, refresh_expires_at, unnoted_exchange)
      values (call.authorization_id, call.grant_id, call.epoch, call.code_hash, call.access_hash,
              now() + make_interval(secs => access_seconds), call.refresh_hash,
              nullif(call.scopes, call.grant_scopes), now() + make_interval(secs => refresh_seconds),
              '{"account": ' || call.account_id || ', "application": ' || call.application_id
                || ', "actor": ' || coalesce(call.actor, 'null') || '}');
      outcome := 'issued';
      scope := array_to_string(call.scopes, ' ');
      authorization_id := call.authorization_id;
      return next;
      continue;
    end if;

    select redeemed_at into used_at from authorization_code where code_hash = call.code_hash;
    -- A double click, or a proxy that repeats a request, is not a theft. Such a race ends no pairs and raises no alarm.
    if used_at <= now() - interval '3 seconds' then
      outcome := 'replayed';
      replayed_hashes := replayed_hashes || call.code_hash;
    end if;
    return next;
  end loop;

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
