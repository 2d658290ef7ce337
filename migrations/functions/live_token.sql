-- All live access tokens and personal access tokens. Only this view decides whether a token is valid, which account it
-- belongs to, and what it may do.
create or replace view live_token as
  select p.access_hash as token_hash, 'access' as kind, p.id as token_id, p.account_id, p.authorization_id,
         p.application_id, p.access_scopes as scopes, p.resource_scope, p.created_at, p.access_expires_at as expires_at,
         p.repository_ids
    from live_pair p
   where p.access_expires_at > now()
  union all
  select t.token_hash, 'personal', t.id, t.account_id, null, null, t.scopes, t.resource_scope, t.created_at, t.expires_at,
         array(select repository_id from personal_token_repository where personal_token_id = t.id)
    from personal_token t
   where t.expires_at > now() and t.revoked_at is null
     and (select disabled_at is null from account where id = t.account_id);
