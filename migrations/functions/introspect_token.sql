-- Returns the RFC 7662 response for a live token. An application sees its own tokens. A resource server also sees all
-- access, personal and deploy tokens, but no refresh token of another client, because clients never send it one. A
-- deploy token belongs to a group. The response always lists the repositories of a deploy token, because `all` would
-- look like more than the group. Tokens of trusted publishers are for the registry alone: the response could not tell for which
-- packages they are. No row when the client's authentication fails, or
-- the client is public: it proves nothing. A null token when the client may see no such token.
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
             'group', (select jsonb_build_object('id', id::text, 'name', name) from repository_group where id = t.group_id),
             'resources', t.resources,
             'resourceScope', case when t.group_id is null then t.resource_scope else 'specified' end,
             'repositories', case when t.group_id is null and t.resource_scope = 'all' then '{}'
                               else array(select g.name || '/' || r.name
                                            from repository r
                                            join repository_group g on g.id = r.group_id
                                           where r.id = any(case when t.resource_scope = 'all'
                                                              then array(select id from repository
                                                                          where group_id = t.group_id)
                                                              else t.repository_ids end)
                                           order by 1) end)
      from (select kind, scopes, account_id, application_id, created_at, expires_at, resource_scope, repository_ids,
                   group_id, resources
              from live_token
             where token_hash = the_token_hash and kind <> 'publisher'
               and (asker.is_resource_server or application_id = asker.application_id)
             union all
            select 'refresh', refresh_scopes, account_id, application_id, created_at, refresh_expires_at, resource_scope,
                   repository_ids, null, refresh_resources
              from live_pair
             where refresh_hash = the_token_hash and refresh_expires_at > now()
               and application_id = asker.application_id) as t)
    from application_credential asker
   where asker.secret_hash = the_secret_hash and asker.client_id = the_client_id and not asker.is_public
$$;
