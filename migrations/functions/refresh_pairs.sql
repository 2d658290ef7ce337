-- Exchanges refresh tokens for the next pairs (SPEC 3, 4.2). Each element of the arrays is one call. All calls share
-- one transaction, but two calls with one token behave like two racing requests. asked_scopes are separated by spaces;
-- null requests all scopes. Returns a row for each call, in any order. The outcome is:
--   issued          the new pair is stored; scope and expires_in are those of its access token
--   repeated        the token was used before, within the grace period; sealed_pair holds the pair of the first use
--   invalid_client  the client's authentication failed, and no token was used
--   invalid_grant   the token is unknown, expired, revoked, or another client's
--   invalid_scope   the call requested more than was granted; the token stays valid
--   invalid_target  the refresh token is not good for the requested resources; it stays valid
--   reused          the token was used again after its grace period; all tokens of the authorization are dead now, but only
--                   those of the grant for a public client, whose grants belong to different machines (OPENID 205)
--
-- One statement decides about all calls: a call gets a pair if the old pair is its own and live, covers what it requests
-- (presented_pairs), and its update finds the refresh token unused and not expired. Only what it refuses is explained
-- (explain_refused_refreshes).
--
-- Each pair costs one update in place and one insert. Nothing else is locked: the new pair copies the epoch of the old
-- one, so it is dead when a revocation commits before it. redeem_codes describes the order of locks.
create or replace function refresh_pairs(
  client_ids text[], secret_hashes bytea[], refresh_hashes bytea[], asked_scopes text[],
  access_hashes bytea[], next_refresh_hashes bytea[], sealed_successors bytea[],
  access_seconds integer, refresh_seconds integer, grace_seconds integer, asked_resources text[])
returns table (call_number integer, outcome text, scope text, expires_in integer, sealed_pair bytea,
               authorization_id bigint)
language plpgsql
-- Use one plan with indexes for all calls: redeem_codes explains why.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  grace constant interval := make_interval(secs => grace_seconds);
  issued_count bigint;
  reused_ids bigint[] := '{}';
  reused_hashes bytea[] := '{}';
begin
  -- Use clock_timestamp(): now() is when the statement began.
  return query
  with call as materialized (
    select n, id, authorization_id, grant_id, epoch, code_hash, own_scopes, scopes, asked, own_resources, access_resources
      from presented_pairs(client_ids, secret_hashes, refresh_hashes, asked_scopes, asked_resources)
     where is_own and is_live and is_covered and is_targeted
     order by id, n
  ), used as (
    update token_pair p
       set superseded_at = now(), successor_id = nextval('token_pair_id_seq'), sealed_successor = sealed_successors[n],
           access_expires_at = least(p.access_expires_at, now() + grace),
           refresh_expires_at = least(p.refresh_expires_at, now() + grace)
      from call
     where p.id = call.id and p.superseded_at is null and p.refresh_expires_at > clock_timestamp()
    returning call.*, p.successor_id
  ), made as (
    insert into token_pair (id, authorization_id, grant_id, epoch, code_hash, predecessor_id,
                            access_hash, access_scopes, access_expires_at,
                            refresh_hash, refresh_scopes, refresh_expires_at, refresh_resources, access_resources)
    overriding system value
    select successor_id, authorization_id, grant_id, epoch, code_hash, id,
           access_hashes[n], string_to_array(asked, ' '), now() + make_interval(secs => access_seconds),
           next_refresh_hashes[n], own_scopes, now() + make_interval(secs => refresh_seconds),
           own_resources, access_resources
      from used
  )
  select n::integer, 'issued', coalesce(asked, array_to_string(scopes, ' ')), access_seconds, null::bytea, authorization_id
    from used;
  get diagnostics issued_count = row_count;
  if issued_count = cardinality(client_ids) then
    return;
  end if;

  for call_number, outcome, scope, expires_in, sealed_pair, authorization_id in
    select * from explain_refused_refreshes(client_ids, secret_hashes, refresh_hashes, asked_scopes, next_refresh_hashes,
                                            grace_seconds, asked_resources)
  loop
    return next;
    if outcome = 'reused' then
      reused_ids := reused_ids || authorization_id;
      reused_hashes := reused_hashes || refresh_hashes[call_number];
    end if;
  end loop;

  if cardinality(reused_ids) > 0 then
    perform from account_authorization where id = any (reused_ids) order by id for no key update;
    update authorization_grant g
       set epoch = epoch + 1
     where authorization_id = any (reused_ids) and ended_at is null
       and (not (select is_public from application where id = g.application_id)
            or g.id in (select coalesce(p.grant_id, p.authorization_id) from token_pair p
                         where p.refresh_hash = any (reused_hashes)));
  end if;
end
$$;
