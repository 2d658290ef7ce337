-- The one answer to "is this token good, whose is it, what may it do": access tokens and personal tokens alike.
create or replace view live_token as
  select p.access_hash as token_hash, 'access' as kind, p.id as token_id, a.account_id, a.id as authorization_id,
         a.application_id, p.access_scopes as scopes, a.resource_scope, p.created_at, p.access_expires_at as expires_at,
         array(select repository_id from authorization_repository where authorization_id = a.id) as repository_ids
    from token_pair p
    join account_authorization a on a.id = p.authorization_id and a.ended_at is null
   where p.access_expires_at > now()
     and (select status = 'approved' from application where id = a.application_id)
     and (select disabled_at is null from account where id = a.account_id)
  union all
  select t.token_hash, 'personal', t.id, t.account_id, null, null, t.scopes, t.resource_scope, t.created_at, t.expires_at,
         array(select repository_id from personal_token_repository where personal_token_id = t.id)
    from personal_token t
   where t.expires_at > now() and t.revoked_at is null
     and (select disabled_at is null from account where id = t.account_id);
