-- Exchanges refresh tokens for the next pairs (SPEC 3, 4.2). Each element of the arrays is one call. All calls share
-- one transaction, but two calls with one token behave like two racing requests. asked_scopes are separated by spaces;
-- null requests all scopes. Returns a row for each call, in any order. The outcome is:
--   issued          the new pair is stored; scope and expires_in are those of its access token
--   repeated        the token was used before, within the grace period; sealed_pair holds the pair of the first use
--   invalid_client  the client's authentication failed, and no token was used
--   invalid_grant   the token is unknown, expired, revoked, or another client's
--   invalid_scope   the call requested more than was granted; the token stays valid
--   reused          the token was used again after its grace period; all tokens of the authorization are dead now
--
-- Each pair costs one update in place and one insert. Nothing else is locked: the new pair copies the epoch of the old
-- one, so it is dead when a revocation commits before it. redeem_codes describes the order of locks.
--
-- One statement refreshes all pairs that are new and valid. Starting a statement costs as much as an update, also
-- because PostgreSQL parses the check constraints of the table again for each one. Only the other calls, which are rare,
-- are handled one by one. A call in a batch of 20 takes half the time that it took in the loop.
create or replace function refresh_pairs(
  client_ids text[], secret_hashes bytea[], refresh_hashes bytea[], asked_scopes text[],
  access_hashes bytea[], next_refresh_hashes bytea[], sealed_successors bytea[],
  access_seconds integer, refresh_seconds integer, grace_seconds integer)
returns table (call_number integer, outcome text, scope text, expires_in integer, sealed_pair bytea,
               authorization_id bigint)
language plpgsql
-- Use one plan with indexes for all calls: redeem_codes explains why.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  grace constant interval := make_interval(secs => grace_seconds);
  call record;
  pair record;
  is_covered boolean;
  new_id bigint;
  issued_count bigint;
  reused_ids bigint[] := '{}';
begin
  -- When the row of a pair changes while this statement waits for its lock, the pair may stay as it is. So may the pair
  -- of a call whose token was sent twice. The loop below decides about these calls. The update finds a row by its
  -- location, because a join by id could read the whole table if it was planned while the table was empty.
  return query
  with call as materialized (
    select c.n, c.asked, c.access_hash, c.next_refresh_hash, c.seal, p.*
      from unnest(client_ids, secret_hashes, refresh_hashes, asked_scopes, access_hashes, next_refresh_hashes,
                  sealed_successors)
           with ordinality as c (client_id, secret_hash, refresh_hash, asked, access_hash, next_refresh_hash, seal, n)
     cross join lateral (
       select id, authorization_id, grant_id, epoch, code_hash, own_scopes, refresh_scopes as scopes, application_id,
              row_location
         from granted_pair
        where refresh_hash = c.refresh_hash and superseded_at is null and is_live
        limit 1) as p
     where p.application_id = (select application_id from application_credential
                                where secret_hash = c.secret_hash and client_id = c.client_id)
       and (c.asked is null or (c.asked <> '' and covers_all(p.scopes, string_to_array(c.asked, ' '))))
     order by p.id, c.n
  ), used as (
    -- Use clock_timestamp(): now() is when the statement began.
    update token_pair p
       set superseded_at = now(), successor_id = nextval('token_pair_id_seq'), sealed_successor = call.seal,
           access_expires_at = least(p.access_expires_at, now() + grace),
           refresh_expires_at = least(p.refresh_expires_at, now() + grace)
      from call
     where p.ctid = call.row_location and p.superseded_at is null and p.refresh_expires_at > clock_timestamp()
    returning call.*, p.successor_id
  ), made as (
    insert into token_pair (id, authorization_id, grant_id, epoch, code_hash, predecessor_id,
                            access_hash, access_scopes, access_expires_at,
                            refresh_hash, refresh_scopes, refresh_expires_at)
    overriding system value
    select successor_id, authorization_id, grant_id, epoch, code_hash, id,
           access_hash, string_to_array(asked, ' '), now() + make_interval(secs => access_seconds),
           next_refresh_hash, own_scopes, now() + make_interval(secs => refresh_seconds)
      from used
  )
  select n::integer, 'issued', coalesce(asked, array_to_string(scopes, ' ')), access_seconds, null::bytea, authorization_id
    from used;
  get diagnostics issued_count = row_count;
  if issued_count = cardinality(client_ids) then
    return;
  end if;

  for call in
    select c.*, p.*,
           (select application_id from application_credential
             where secret_hash = c.secret_hash and client_id = c.client_id) as client
      from unnest(client_ids, secret_hashes, refresh_hashes, asked_scopes, access_hashes, next_refresh_hashes,
                  sealed_successors)
           with ordinality as c (client_id, secret_hash, refresh_hash, asked, access_hash, next_refresh_hash, seal, n)
      left join lateral (
        select id, authorization_id as pair_authorization_id, grant_id, epoch, code_hash, own_scopes,
               refresh_scopes as scopes, application_id, is_ended, is_live
          from granted_pair
         where refresh_hash = c.refresh_hash
         limit 1) as p on true
     where not exists (select from token_pair where refresh_hash = c.next_refresh_hash)
     order by p.id, c.n
  loop
    call_number := call.n;
    scope := null;
    expires_in := null;
    sealed_pair := null;
    authorization_id := call.pair_authorization_id;
    if call.client is null then
      outcome := 'invalid_client';
      return next;
      continue;
    end if;

    outcome := 'invalid_grant';
    if call.application_id is distinct from call.client or call.is_ended then
      return next;
      continue;
    end if;

    is_covered := call.asked is null
               or (call.asked <> '' and covers_all(call.scopes, string_to_array(call.asked, ' ')));
    if call.is_live and is_covered then
      new_id := nextval('token_pair_id_seq');
      -- Use clock_timestamp(): now() is when the statement began. A racing request may have ended the pair since then.
      update token_pair
         set superseded_at = now(), successor_id = new_id, sealed_successor = call.seal,
             access_expires_at = least(access_expires_at, now() + grace),
             refresh_expires_at = least(refresh_expires_at, now() + grace)
       where id = call.id and superseded_at is null and refresh_expires_at > clock_timestamp();
      if found then
        insert into token_pair (id, authorization_id, grant_id, epoch, code_hash, predecessor_id,
                                access_hash, access_scopes, access_expires_at,
                                refresh_hash, refresh_scopes, refresh_expires_at)
        overriding system value
        values (new_id, call.pair_authorization_id, call.grant_id, call.epoch, call.code_hash, call.id,
                call.access_hash, string_to_array(call.asked, ' '), now() + make_interval(secs => access_seconds),
                call.next_refresh_hash, call.own_scopes, now() + make_interval(secs => refresh_seconds));
        outcome := 'issued';
        scope := coalesce(call.asked, array_to_string(call.scopes, ' '));
        expires_in := access_seconds;
        return next;
        continue;
      end if;
    end if;

    -- Read again: a racing request, or an earlier call of this statement, may have changed the pair and its grant.
    select superseded_at, successor_id, sealed_successor, refresh_expires_at > clock_timestamp() as is_young, is_live
      into pair
      from granted_pair
     where id = call.id;
    if pair.is_young and pair.is_live then
      if not is_covered then
        outcome := 'invalid_scope';
      elsif pair.superseded_at is not null then
        select 'repeated', array_to_string(access_scopes, ' '),
               greatest(0, floor(extract(epoch from access_expires_at - now()))), pair.sealed_successor
          into outcome, scope, expires_in, sealed_pair
          from granted_pair
         where id = pair.successor_id;
      end if;
    elsif not pair.is_young and pair.superseded_at is not null then
      -- The use of an expired token alone is no sign of theft. The seal of a superseded token ends with its grace
      -- period.
      update token_pair set sealed_successor = null where id = call.id and sealed_successor is not null;
      if pair.superseded_at + grace <= now() then
        outcome := 'reused';
        reused_ids := reused_ids || call.pair_authorization_id;
      end if;
    end if;
    return next;
  end loop;

  if cardinality(reused_ids) > 0 then
    perform from account_authorization where id = any (reused_ids) order by id for no key update;
    update authorization_grant set epoch = epoch + 1 where authorization_id = any (reused_ids) and ended_at is null;
  end if;
end
$$;
