-- The token pairs whose grant and application allow their use. The caller must check that the access or refresh token
-- has not expired. Subqueries read the application and the account, because a subquery never becomes a join. With
-- missing or old statistics, PostgreSQL could start a join with all approved applications.
create or replace view live_pair as
  select id, authorization_id, access_hash, access_expires_at, refresh_hash, refresh_expires_at, created_at,
         access_scopes, refresh_scopes, account_id, application_id, resource_scope, repository_ids, access_resources,
         refresh_resources, grant_id
    from granted_pair p
   where is_live and (select status = 'approved' from application where id = p.application_id);
