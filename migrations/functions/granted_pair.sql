-- Token pairs with their grants. A pair never allows more than its grant: scopes that the grant loses leave the pair.
-- is_live: the grant, its epoch, the code and the account allow the use of the pair. The caller must check that the
-- application is approved and that the token has not expired. row_location is the place of the pair's row in its table
-- (ctid), which only the statement that read it may use.
create or replace view granted_pair as
  select p.id, p.authorization_id, g.id as grant_id, p.epoch, p.code_hash, p.access_hash, p.access_expires_at,
         p.refresh_hash, p.refresh_expires_at, p.superseded_at, p.successor_id, p.sealed_successor, p.created_at,
         p.refresh_scopes as own_scopes,
         case when p.refresh_scopes is null then g.scopes else narrowed_scopes(p.refresh_scopes, g.scopes)
          end as refresh_scopes,
         case when coalesce(p.access_scopes, p.refresh_scopes) is null then g.scopes
              else narrowed_scopes(coalesce(p.access_scopes, p.refresh_scopes), g.scopes)
          end as access_scopes,
         g.account_id, g.application_id, g.resource_scope, g.repository_ids,
         g.ended_at is not null as is_ended,
         g.ended_at is null and p.epoch = g.epoch and array_position(g.replayed_codes, p.code_hash) is null
           and (select disabled_at is null from account where id = g.account_id) as is_live,
         p.ctid as row_location,
         p.refresh_resources as own_resources, p.access_resources as own_access_resources,
         coalesce(p.refresh_resources, g.resources) as refresh_resources,
         coalesce(p.access_resources, p.refresh_resources, g.resources) as access_resources
    from token_pair p
   -- Without the limit, PostgreSQL could make this a join and read all grants.
   cross join lateral (
     select id, scopes, account_id, application_id, resource_scope, repository_ids, ended_at, epoch, replayed_codes, resources
       from authorization_grant
      where id = coalesce(p.grant_id, p.authorization_id)
      limit 1) as g;
