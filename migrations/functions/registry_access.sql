-- Returns one row for a request to a registry. The row has the repository that has or had this path, the live token
-- with this hash, and the role of the token's account as a member. An admin token has the role admin everywhere. A deploy
-- token has its own role in the repositories of its group. Each part is null when it does not exist. All parts are null
-- when the request presents a token that is not live, or not for the place: without one, the registry of the path. Endpoints join their data to this row, so that a request needs one statement.
create or replace function registry_access(
  group_name text, repository_name text, presented_hash bytea, place text)
returns table (
  repository_id bigint, visibility repository_visibility, role member_role, token_kind text, token_id bigint,
  account_id bigint, authorization_id bigint, scopes text[], resource_scope resource_scope, repository_ids bigint[]
)
language sql stable parallel safe as $$
  select r.id, r.visibility,
         coalesce(case when t.is_admin and r.id is not null then 'admin'::member_role end, own.role,
                  case when r.group_id = t.group_id then t.own_role end),
         t.kind, t.token_id, t.account_id, t.authorization_id, t.scopes, t.resource_scope, t.repository_ids
    from (values (true)) as request (is_one)
    left join live_token t
      on t.token_hash = presented_hash
     and (t.resources is null
          or is_for(t.resources, coalesce(place, '/' || group_name || '/' || repository_name || '/-/packages/')))
    left join repository_group g
      on g.id = group_named(group_name) and (presented_hash is null or t.token_id is not null)
    left join repository named on named.group_id = g.id and named.name = repository_name
    left join repository_alias former
      on named.id is null and former.group_id = g.id and former.name = repository_name
    left join repository r on r.id = coalesce(named.id, former.repository_id) and r.group_id is not null
    left join lateral role_as_member(t.account_id, r.group_id, r.id) own on true
$$;
