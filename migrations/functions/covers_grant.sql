-- Returns whether one grant allows everything that another one allows.
create or replace function covers_grant(one authorization_grant, other authorization_grant) returns boolean
language sql immutable as $$
  select covers_all(one.scopes, other.scopes)
     and covers_resources(one.resources, other.resources)
     and (one.resource_scope = 'all'
          or (one.resource_scope = other.resource_scope
              and (one.resource_scope <> 'specified' or other.repository_ids <@ one.repository_ids)))
$$;
