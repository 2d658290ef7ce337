-- What RFC 7662 tells of a live token: to an application of its own tokens, to a resource server of every one.
-- No row when the client's authentication fails; a null token when there is none to be told of.
create or replace function introspect_token(the_client_id text, the_secret_hash bytea, the_token_hash bytea)
returns table (token jsonb)
language sql stable as $$
  select (
    select jsonb_build_object(
             'kind', t.kind, 'scopes', t.scopes,
             'clientId', (select client_id from application where id = t.application_id),
             'accountId', t.account_id::text,
             'username', (select username from account where id = t.account_id),
             'issuedAt', floor(extract(epoch from t.created_at)),
             'expiresAt', case when isfinite(t.expires_at) then floor(extract(epoch from t.expires_at)) end,
             'resourceScope', t.resource_scope,
             'repositories', array(select (select name from repository_group where id = r.group_id) || '/' || r.name
                                     from repository r
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
             where p.refresh_hash = the_token_hash and p.refresh_expires_at > now()
               and (select status = 'approved' from application where id = a.application_id)
               and (select disabled_at is null from account where id = a.account_id)) as t
     where asker.is_resource_server or t.application_id = asker.id)
    from application asker
   where asker.id = authenticate_application(the_client_id, the_secret_hash)
$$;
