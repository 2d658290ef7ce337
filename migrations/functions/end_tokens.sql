-- Revokes tokens (SPEC 4.3, RFC 7009). Each element of the arrays is one call. A refresh token ends its authorization, but
-- only its grant for a public client, whose grants belong to different machines (OPENID 212). An access token ends only
-- itself. A token that is not live, or belongs to another client, changes nothing.
-- Returns a row for each call, in any order. is_authenticated is false when the client's authentication failed. An
-- actor is JSON text that describes the sender of the request, for the identity event, or null. redeem_codes describes
-- the order of locks.
create or replace function end_tokens(client_ids text[], secret_hashes bytea[], token_hashes bytea[], actors text[])
returns table (call_number integer, is_authenticated boolean)
language plpgsql
-- Use one plan with indexes for all calls. A plan for each length of the arrays takes longer than the calls. A plan
-- that was made for small tables would stay when the tables grow.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  call record;
  ended_ids bigint[] := '{}';
  ended_grants bigint[] := '{}';
  ended_by text[] := '{}';
  withdrawn jsonb;
begin
  -- One statement for all access tokens and their events. A statement for each call would take longer than its work.
  for call in
    with call as materialized (
      select c.n, c.actor, p.*, client, p.application_id = client as is_own
        from unnest(client_ids, secret_hashes, token_hashes, actors)
             with ordinality as c (client_id, secret_hash, token_hash, actor, n)
       cross join lateral (
         select (select application_id from application_credential
                  where secret_hash = c.secret_hash and client_id = c.client_id) as client) as credential
        left join lateral (
          select id, authorization_id, grant_id, account_id, application_id, false as is_refresh_token
            from live_pair
           where access_hash = c.token_hash and access_expires_at > now()
           union all
          select id, authorization_id, grant_id, account_id, application_id, true
            from live_pair
           where refresh_hash = c.token_hash and refresh_expires_at > now()
           limit 1) as p on true
    ), revoked as materialized (
      select distinct on (id) id, n, account_id, application_id, actor::jsonb as about
        from call
       where is_own and not is_refresh_token
       order by id, n
    ), ended as (
      -- The index scan takes the locks in the order of the ids. Without a join, it can never read the whole table.
      update token_pair
         set access_expires_at = now()
       where id = any (array(select id from revoked)) and access_expires_at > now()
      returning id
    ), noted as materialized (
      select insert_events(jsonb_agg(jsonb_build_object(
               'action', 'token-revoked', 'account_id', account_id, 'application_id', application_id, 'via', 'application',
               'address', about -> 'ip', 'user_agent', about -> 'userAgent', 'request_id', about -> 'requestId') order by n))
        from ended join revoked using (id)
      having count(*) > 0
    )
    select n, client, actor, authorization_id, is_own and is_refresh_token as ends_more,
           case when (select is_public from application where id = client) then grant_id end as ended_grant
      from call left join noted on true
  loop
    call_number := call.n;
    is_authenticated := call.client is not null;
    return next;
    if call.ends_more then
      ended_ids := ended_ids || call.authorization_id;
      ended_grants := array_append(ended_grants, call.ended_grant);
      -- The identity event of the end has the application as its actor.
      ended_by := ended_by || coalesce(call.actor, '{"via": "application"}');
    end if;
  end loop;

  for call in
    select distinct on (id, grant_id) id, grant_id, actor
      from unnest(ended_ids, ended_grants, ended_by) as ended (id, grant_id, actor)
     order by id, grant_id
  loop
    if call.grant_id is not null then
      perform end_grant(the_grant_id => call.grant_id, the_account_id => null, the_actor => call.actor::jsonb);
      continue;
    end if;
    update account_authorization set ended_at = now() where id = call.id and ended_at is null
    returning jsonb_build_object('action', 'authorization-withdrawn', 'account_id', account_id, 'application_id', application_id)
         into withdrawn;
    if found then
      perform insert_events(jsonb_build_array(withdrawn), call.actor::jsonb);
    end if;
  end loop;
end
$$;
