-- Approves a request that waits for this account's decision (SPEC 4.1). Adds a grant to the account's authorization of
-- the application and issues a code that belongs to the grant. Earlier grants do not change. Returns no row in these
-- cases:
-- - The request is unknown, expired, already decided, or belongs to another account.
-- - Its application may no longer be authorized.
-- - Repositories must be chosen, and the account is a member of none of the chosen ones.
create or replace function approve_authorization_request(
  the_id_hash bytea, the_account_id bigint, chosen_paths text[], the_code_hash bytea, code_lifetime_seconds integer
) returns table (redirect_uri text, state text)
language plpgsql as $$
#variable_conflict use_column
declare
  request              authorization_request;
  the_authorization_id bigint;
  the_grant_id         bigint;
  is_first             boolean;
  former               authorization_grant;
  granted              authorization_grant;
  chosen_ids           bigint[] := array(
    select r.id
      from unnest(chosen_paths) as path
      join repository_group g on g.name = split_part(path, '/', 1)
      join repository r on r.group_id = g.id and r.name = split_part(path, '/', 2)
      cross join lateral role_as_member(the_account_id, g.id, r.id) own
     where own.role is not null);
begin
  -- When two decisions race, the second waits here for the first. Then it finds no open request.
  update authorization_request r
     set answered_at = now()
    from application c
   where r.id_hash = the_id_hash and r.account_id = the_account_id
     and r.answered_at is null and r.expires_at > now()
     and c.id = r.application_id and c.status = 'approved'
     and (r.resource_scope <> 'specified' or cardinality(chosen_ids) > 0)
  returning r.* into request;
  if not found then
    return;
  end if;

  -- The lock on the authorization orders this grant and a withdrawal. So a withdrawal either comes first, or also ends
  -- this grant.
  insert into account_authorization (account_id, application_id)
  values (the_account_id, request.application_id)
  on conflict (account_id, application_id) where ended_at is null do update set granted_at = now()
  returning id, xmax = 0 into the_authorization_id, is_first;

  -- A grant without a time may hold several acts of consent of an earlier release, so it is not compared.
  select g.* into former
    from authorization_grant g
   where g.authorization_id = the_authorization_id and g.ended_at is null and g.granted_at is not null
   order by g.id desc
   limit 1;

  -- The first grant has the id of its authorization. So it also owns a code that a process of the previous release
  -- issues.
  the_grant_id := case when is_first then the_authorization_id else nextval('account_authorization_id_seq') end;
  insert into authorization_grant (id, authorization_id, account_id, application_id, scopes, resource_scope, repository_ids)
  values (the_grant_id, the_authorization_id, the_account_id, request.application_id, request.scopes, request.resource_scope,
          case when request.resource_scope = 'specified' then chosen_ids else '{}' end)
  returning * into granted;
  perform note_identity_event('consent-given', the_account_id, request.application_id,
                              jsonb_build_object('scopes', granted.scopes, 'resource_scope', granted.resource_scope));
  if former.id is not null and covers_grant(former, granted) and not covers_grant(granted, former) then
    perform note_identity_event('consent-narrowed', the_account_id, request.application_id,
                                jsonb_build_object('from', describe_grant(former), 'to', describe_grant(granted)));
  end if;

  -- These get no more codes: a repeated request gets one of the newest grant with its resource scope.
  insert into superseded_grant (grant_id)
  select g.id
    from authorization_grant g
   where g.authorization_id = the_authorization_id and g.id < the_grant_id and g.ended_at is null
     and g.resource_scope = granted.resource_scope and covers_grant(granted, g)
  on conflict do nothing;

  insert into authorization_code (code_hash, authorization_id, grant_id, redirect_uri, scopes, code_challenge, expires_at)
  values (the_code_hash, the_authorization_id, the_grant_id, request.redirect_uri, request.scopes, request.code_challenge,
          now() + make_interval(secs => code_lifetime_seconds));
  return query select request.redirect_uri, request.state;
end
$$;
