-- What the token, revocation and introspection endpoints decide (SPEC §3, 4.2, 4.3, 5.1), each in one call, the
-- application's authentication included. A call answers one row, so that many can ride on one statement:
-- select … from unnest(…) with ordinality as call (…) cross join lateral exchange_code(…).
--
-- Whatever changes more than one row of an authorization locks the authorization first and its code and token
-- pairs afterwards. Calls on one authorization therefore run one after the other, none waits for another in a
-- circle, and a refresh that meets a revocation sees either nothing of it or all of it.

-- The approved application that has this client identifier and secret; null for any other credentials. The search
-- begins with the secret's hash: an unknown client costs what a wrong secret does.
create function authenticate_application(the_client_id text, the_secret_hash bytea) returns bigint
language sql stable parallel safe as $$
  select a.id
    from application_secret s
    join application a on a.id = s.application_id
   where s.secret_hash = the_secret_hash and s.expires_at > now()
     and a.client_id = the_client_id and a.status = 'approved'
$$;

-- True when every asked scope is granted; :rw covers :r (DESIGN §1).
create function covers_all(granted text[], asked text[]) returns boolean
language sql immutable parallel safe as $$
  select not exists (select from unnest(asked) as scope where scope <> all (granted) and scope || 'w' <> all (granted))
$$;

-- Locks an authorization that stands and whose account may act. False when it has ended or the account is disabled.
create function lock_authorization(the_authorization_id bigint) returns boolean
language plpgsql as $$
begin
  perform from account_authorization a join account u on u.id = a.account_id
    where a.id = the_authorization_id and a.ended_at is null and u.disabled_at is null
      for no key update of a;
  return found;
end
$$;

-- Exchanges a code for its first token pair (SPEC 4.2). The outcome is:
--   issued          the pair is stored, with the scopes answered
--   invalid_client  nothing was looked at
--   invalid_grant   the code is unknown, expired, or bound to other things than these; it is as good as before
--   replayed        the code was used before; unless that was a moment ago, the pairs that came of it are dead now
create function exchange_code(
  the_client_id text, the_secret_hash bytea, the_code_hash bytea, the_redirect_uri text, the_code_challenge text,
  new_access_hash bytea, new_refresh_hash bytea, access_seconds integer, refresh_seconds integer,
  out outcome text, out scopes text[])
language plpgsql as $$
declare
  the_application_id bigint := authenticate_application(the_client_id, the_secret_hash);
  code record;
begin
  if the_application_id is null then
    outcome := 'invalid_client';
    return;
  end if;

  -- Only the code's own client, with everything the code is bound to, may use it up or be told of a replay.
  select c.authorization_id, c.scopes into code
    from authorization_code c
    join account_authorization a on a.id = c.authorization_id and a.application_id = the_application_id
   where c.code_hash = the_code_hash
     and (the_redirect_uri is null or the_redirect_uri = c.redirect_uri)
     and c.code_challenge is not distinct from the_code_challenge;
  if not found or not lock_authorization(code.authorization_id) then
    outcome := 'invalid_grant';
    return;
  end if;

  update authorization_code
     set redeemed_at = now()
   where code_hash = the_code_hash and redeemed_at is null and expires_at > now();
  if found then
    insert into token_pair (authorization_id, code_hash, access_hash, access_scopes, access_expires_at,
                            refresh_hash, refresh_scopes, refresh_expires_at)
    values (code.authorization_id, the_code_hash, new_access_hash, code.scopes, now() + make_interval(secs => access_seconds),
            new_refresh_hash, code.scopes, now() + make_interval(secs => refresh_seconds));
    outcome := 'issued';
    scopes := code.scopes;
    return;
  end if;

  outcome := 'invalid_grant';
  perform from authorization_code where code_hash = the_code_hash and redeemed_at is not null;
  if found then
    outcome := 'replayed';
    -- Two clicks, or a proxy that sends twice, are no theft: the loser of such a race ends nothing.
    perform from authorization_code
      where code_hash = the_code_hash and redeemed_at > now() - interval '3 seconds';
    if not found then
      update token_pair
         set access_expires_at = least(access_expires_at, now()),
             refresh_expires_at = least(refresh_expires_at, now()),
             sealed_successor = null
       where code_hash = the_code_hash and (refresh_expires_at > now() or access_expires_at > now());
    end if;
  end if;
end
$$;

-- Exchanges a refresh token for the next pair (SPEC §3, 4.2). asked_scopes null asks for all. The outcome is:
--   issued          the new pair is stored; scopes and expires_in are those of its access token
--   repeated        first used within the grace period: sealed_pair holds the pair that the first use made
--   invalid_client  nothing was looked at
--   invalid_grant   unknown, expired, revoked, or another application's
--   invalid_scope   more was asked than was granted; the token is as good as before
--   reused          used again after its grace period: the authorization's tokens are dead now
create function refresh_pair(
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

-- Revokes a token (SPEC 4.3, RFC 7009): a refresh token ends its authorization, an access token only itself.
-- False when the client's authentication fails. A token that is not live, or not this client's, changes nothing.
create function revoke_token(the_client_id text, the_secret_hash bytea, the_token_hash bytea) returns boolean
language plpgsql as $$
declare
  the_application_id bigint := authenticate_application(the_client_id, the_secret_hash);
begin
  if the_application_id is null then
    return false;
  end if;

  update account_authorization a
     set ended_at = now()
    from token_pair p
   where p.refresh_hash = the_token_hash and p.refresh_expires_at > now()
     and a.id = p.authorization_id and a.application_id = the_application_id and a.ended_at is null;

  update token_pair p
     set access_expires_at = least(p.access_expires_at, now())
    from account_authorization a
   where p.access_hash = the_token_hash and p.access_expires_at > now()
     and a.id = p.authorization_id and a.application_id = the_application_id;
  return true;
end
$$;

-- Seals to be wiped, so that the sweep finds them without reading every pair.
create index token_pair_to_unseal on token_pair (refresh_expires_at) where sealed_successor is not null;

-- What RFC 7662 tells of a live token: to an application of its own tokens, to a resource server of every one.
-- No row when the client's authentication fails; a null token when there is none to be told of.
create function introspect_token(the_client_id text, the_secret_hash bytea, the_token_hash bytea)
returns table (token jsonb)
language sql stable as $$
  select (
    select jsonb_build_object(
             'kind', t.kind, 'scopes', t.scopes, 'clientId', c.client_id,
             'accountId', t.account_id::text, 'username', u.username,
             'issuedAt', floor(extract(epoch from t.created_at)),
             'expiresAt', case when isfinite(t.expires_at) then floor(extract(epoch from t.expires_at)) end,
             'resourceScope', t.resource_scope,
             'repositories', array(select g.name || '/' || r.name
                                     from repository r join repository_group g on g.id = r.group_id
                                    where r.id = any(t.repository_ids)
                                    order by 1))
      from (select kind, scopes, account_id, application_id, created_at, expires_at, resource_scope, repository_ids
              from live_token
             where token_hash = the_token_hash
             union all
            select 'refresh', p.refresh_scopes, a.account_id, a.application_id, p.created_at, p.refresh_expires_at,
                   a.resource_scope,
                   array(select repository_id from authorization_repository where authorization_id = a.id)
              from token_pair p
              join account_authorization a on a.id = p.authorization_id and a.ended_at is null
              join application c on c.id = a.application_id and c.status = 'approved'
             where p.refresh_hash = the_token_hash and p.refresh_expires_at > now()) as t
      join account u on u.id = t.account_id and u.disabled_at is null
      left join application c on c.id = t.application_id
     where asker.is_resource_server or t.application_id = asker.id)
    from application asker
   where asker.id = authenticate_application(the_client_id, the_secret_hash)
$$;
