-- Exchanges a refresh token for the next pair (SPEC §3, 4.2). asked_scopes null asks for all. The outcome is:
--   issued          the new pair is stored; scopes and expires_in are those of its access token
--   repeated        first used within the grace period: sealed_pair holds the pair that the first use made
--   invalid_client  nothing was looked at
--   invalid_grant   unknown, expired, revoked, or another application's
--   invalid_scope   more was asked than was granted; the token is as good as before
--   reused          used again after its grace period: the authorization's tokens are dead now
create or replace function refresh_pair(
  the_client_id text, the_secret_hash bytea, the_refresh_hash bytea, asked_scopes text[],
  new_access_hash bytea, new_refresh_hash bytea, the_sealed_successor bytea,
  access_seconds integer, refresh_seconds integer, grace_seconds integer,
  out outcome text, out scopes text[], out expires_in integer, out sealed_pair bytea)
language plpgsql as $$
declare
  the_application_id bigint := authenticate_application(the_client_id, the_secret_hash);
  grace interval := make_interval(secs => grace_seconds);
  the_authorization_id bigint;
  pair record;
  new_pair_id bigint;
begin
  if the_application_id is null then
    outcome := 'invalid_client';
    return;
  end if;

  outcome := 'invalid_grant';
  select p.authorization_id into the_authorization_id
    from token_pair p
    join account_authorization a on a.id = p.authorization_id and a.application_id = the_application_id
   where p.refresh_hash = the_refresh_hash;
  if not found or not lock_authorization(the_authorization_id) then
    return;
  end if;

  -- Read only now, and by the clock of now: now() is when this call began, which may be before who held the lock
  -- set the pair's end.
  select p.id, p.code_hash, p.refresh_scopes, p.superseded_at, p.successor_id, p.sealed_successor,
         p.refresh_expires_at > clock_timestamp() as is_live
    into pair
    from token_pair p
   where p.refresh_hash = the_refresh_hash;
  if not found then
    return;
  end if;

  if not pair.is_live then
    -- One that only grew old is no sign of theft. The seal of a superseded one ends with its grace.
    if pair.superseded_at is not null then
      update token_pair set sealed_successor = null where id = pair.id and sealed_successor is not null;
      if pair.superseded_at + grace <= now() then
        outcome := 'reused';
        update token_pair
           set access_expires_at = least(access_expires_at, now()),
               refresh_expires_at = least(refresh_expires_at, now()),
               sealed_successor = null
         where authorization_id = the_authorization_id and (refresh_expires_at > now() or access_expires_at > now());
      end if;
    end if;
    return;
  end if;

  if asked_scopes is not null and not covers_all(pair.refresh_scopes, asked_scopes) then
    outcome := 'invalid_scope';
    return;
  end if;

  if pair.superseded_at is not null then
    select 'repeated', p.access_scopes, greatest(0, floor(extract(epoch from p.access_expires_at - now()))), pair.sealed_successor
      into outcome, scopes, expires_in, sealed_pair
      from token_pair p
     where p.id = pair.successor_id;
    return;
  end if;

  outcome := 'issued';
  scopes := coalesce(asked_scopes, pair.refresh_scopes);
  expires_in := access_seconds;
  insert into token_pair (authorization_id, code_hash, access_hash, access_scopes, access_expires_at,
                          refresh_hash, refresh_scopes, refresh_expires_at)
  values (the_authorization_id, pair.code_hash, new_access_hash, scopes, now() + make_interval(secs => access_seconds),
          new_refresh_hash, pair.refresh_scopes, now() + make_interval(secs => refresh_seconds))
  returning id into new_pair_id;
  update token_pair
     set superseded_at = now(), successor_id = new_pair_id, sealed_successor = the_sealed_successor,
         access_expires_at = least(access_expires_at, now() + grace),
         refresh_expires_at = least(refresh_expires_at, now() + grace)
   where id = pair.id;
end
$$;
