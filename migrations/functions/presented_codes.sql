-- The codes that calls of the token endpoint present (SPEC 4.2). Each element of the arrays is one call; n is its place.
-- Without a code of this hash, the columns of the code are null. client is null when the client's authentication failed.
-- is_granted is whether this call may exchange the code, if nobody has used it: the code is the client's own, the call
-- sends what the code is bound to, and the grant and the account allow it. A call without a redirect_uri is not bound to
-- one. A public client, which may have had a secret before, needs a code with a challenge or of a device (OPENID 202).
-- asked_resources are separated by spaces; null requests none. is_targeted is whether the code is good for them, and they
-- exist. refresh_resources and access_resources are those of the pair: a grant for everything gets its resources from the
-- first request that names some.
create or replace function presented_codes(
  client_ids text[], secret_hashes bytea[], code_hashes bytea[], redirect_uris text[], code_challenges text[],
  asked_resources text[])
returns table (n bigint, client bigint, code_hash bytea, redeemed_at timestamptz, scopes text[],
               authorization_id bigint, grant_id bigint, epoch integer, grant_scopes text[], account_id bigint,
               application_id bigint, is_granted boolean, is_targeted boolean, refresh_resources text[],
               access_resources text[])
language sql stable as $$
  select call.n, client.id, code.code_hash, code.redeemed_at, code.scopes, code.authorization_id, code.grant_id,
         code.epoch, code.grant_scopes, code.account_id, code.application_id,
         code.application_id = client.id
           and (call.redirect_uri <> code.redirect_uri) is not true
           and call.code_challenge is not distinct from code.code_challenge
           and (code.code_challenge is not null or code.redirect_uri = ''
                or not (select is_public from application where id = code.application_id))
           and code.ended_at is null and code.scopes <> '{}'
           and (select disabled_at is null from account where id = code.account_id),
         call.asked is null
           or may_have_resources(code.account_id, coalesce(code.resources, code.grant_resources), call.asked),
         coalesce(code.resources, case when code.grant_resources is null then string_to_array(call.asked, ' ') end),
         string_to_array(call.asked, ' ')
    from unnest(client_ids, secret_hashes, code_hashes, redirect_uris, code_challenges, asked_resources)
         with ordinality as call (client_id, secret_hash, code_hash, redirect_uri, code_challenge, asked, n)
   cross join lateral (
     select (select c.application_id from application_credential c
              where c.secret_hash = call.secret_hash and c.client_id = call.client_id) as id) as client
    -- Without the limit, PostgreSQL could make this a join and read all codes.
    left join lateral (
      select o.code_hash, o.redirect_uri, o.code_challenge, o.redeemed_at, narrowed_scopes(o.scopes, g.scopes) as scopes,
             o.authorization_id, g.id as grant_id, g.epoch, g.scopes as grant_scopes, g.account_id, g.application_id,
             g.ended_at, o.resources, g.resources as grant_resources
        from authorization_code o
        join authorization_grant g on g.id = coalesce(o.grant_id, o.authorization_id)
       where o.code_hash = call.code_hash
       limit 1) as code on true
$$;
