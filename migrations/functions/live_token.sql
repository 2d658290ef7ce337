-- All live access tokens, personal access tokens, deploy tokens and tokens of trusted publishers. Only this view decides
-- whether a token is valid, whose it is, and what it may do. A deploy token has no account. It has a group, and a role in the
-- group's repositories. A token of a trusted publisher is the same for one repository. Its rights for single packages are in
-- publisher_token. is_admin: the token carries the right of a site administrator. resources: where the token works (is_for); who
-- reads the view must ask that.
create or replace view live_token as
  select p.access_hash as token_hash, 'access' as kind, p.id as token_id, p.account_id, p.authorization_id,
         p.application_id, p.access_scopes as scopes, p.resource_scope, p.created_at, p.access_expires_at as expires_at,
         p.repository_ids, null::bigint as group_id, null::member_role as own_role,
         false as is_admin, p.access_resources as resources
    from live_pair p
   where p.access_expires_at > now()
  union all
  select t.token_hash, 'personal', t.id, t.account_id, null, null, t.scopes, t.resource_scope, t.created_at, t.expires_at,
         array(select repository_id from personal_token_repository where personal_token_id = t.id), null, null,
         t.is_admin, null
    from personal_token t
   where t.expires_at > now() and t.revoked_at is null
     and (select disabled_at is null from account where id = t.account_id)
  union all
  select d.token_hash, 'deploy', d.id, null, null, null, d.scopes, d.resource_scope, d.created_at, d.expires_at,
         array(select repository_id from deploy_token_repository where deploy_token_id = d.id), d.group_id, d.role,
         false, null
    from deploy_token d
   where d.expires_at > now() and d.revoked_at is null
  union all
  select p.token_hash, 'publisher', p.id, null, null, null, p.scopes, 'specified', p.created_at, p.expires_at,
         array[p.repository_id], r.group_id, p.role, false, null
    from publisher_token p
    join repository r on r.id = p.repository_id and r.group_id is not null
   where p.expires_at > now();
