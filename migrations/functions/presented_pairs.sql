-- The pairs whose refresh tokens calls of the token endpoint present (SPEC 4.2). Each element of the arrays is one call; n
-- is its place. asked_scopes are separated by spaces; null requests all scopes. Without a pair of this hash, the columns of
-- the pair are null. client is null when the client's authentication failed.
-- asked_resources are separated by spaces; null requests those of the pair's access token. is_targeted is whether the refresh
-- token is good for them, and they exist. access_resources are those of the next access token.
-- is_own is whether the pair is the client's. is_covered is whether the pair's scopes cover those that the call requests.
create or replace function presented_pairs(
  client_ids text[], secret_hashes bytea[], refresh_hashes bytea[], asked_scopes text[], asked_resources text[])
returns table (n bigint, client bigint, id bigint, authorization_id bigint, grant_id bigint, epoch integer,
               code_hash bytea, own_scopes text[], scopes text[], asked text, refresh_expires_at timestamptz,
               superseded_at timestamptz, successor_id bigint, sealed_successor bytea, is_ended boolean, is_live boolean,
               is_own boolean, is_covered boolean, is_targeted boolean, own_resources text[], access_resources text[])
language sql stable as $$
  select call.n, client.id, pair.id, pair.authorization_id, pair.grant_id, pair.epoch, pair.code_hash, pair.own_scopes,
         pair.scopes, call.asked, pair.refresh_expires_at, pair.superseded_at, pair.successor_id, pair.sealed_successor,
         pair.is_ended, pair.is_live,
         pair.application_id = client.id,
         call.asked is null or (call.asked <> '' and covers_all(pair.scopes, string_to_array(call.asked, ' '))),
         call.resources is null
           or may_have_resources(pair.account_id, pair.refresh_resources, call.resources),
         pair.own_resources, coalesce(string_to_array(call.resources, ' '), pair.own_access_resources)
    from unnest(client_ids, secret_hashes, refresh_hashes, asked_scopes, asked_resources)
         with ordinality as call (client_id, secret_hash, refresh_hash, asked, resources, n)
   cross join lateral (
     select (select c.application_id from application_credential c
              where c.secret_hash = call.secret_hash and c.client_id = call.client_id) as id) as client
    -- Without the limit, PostgreSQL could make this a join and read all pairs.
    left join lateral (
      select g.id, g.authorization_id, g.grant_id, g.epoch, g.code_hash, g.own_scopes, g.refresh_scopes as scopes,
             g.refresh_expires_at, g.superseded_at, g.successor_id, g.sealed_successor, g.application_id, g.is_ended,
             g.is_live, g.account_id, g.own_resources, g.own_access_resources, g.refresh_resources
        from granted_pair g
       where g.refresh_hash = call.refresh_hash
       limit 1) as pair on true
$$;
