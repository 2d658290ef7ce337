-- Approves a request that waits for this account's decision (SPEC 4.1). Adds a grant and issues a code that
-- belongs to it. The code of a device waits for its next poll. Then there is no redirect URI, and the_code_hash is not
-- used. Returns no row in these cases:
-- - The request is unknown, expired, already decided, or belongs to another account.
-- - Its application may no longer be authorized.
-- - Repositories must be chosen, and the account is a member of none of the chosen ones.
create or replace function approve_authorization_request(
  the_id_hash bytea, the_account_id bigint, chosen_paths text[], the_code_hash bytea, code_lifetime_seconds integer
) returns table (redirect_uri text, state text)
language plpgsql as $$
#variable_conflict use_column
declare
  request    authorization_request;
  granted    authorization_grant;
  chosen_ids bigint[] := array(
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
     and c.id = r.application_id and c.status = 'approved' and (r.device_hash is null or c.is_device)
     and (r.resource_scope <> 'specified' or cardinality(chosen_ids) > 0)
  returning r.* into request;
  if not found then
    return;
  end if;

  -- Two pages may ask about one device. Only the first decision counts.
  if request.device_hash is not null then
    update device_request
       set is_approved = true, account_id = the_account_id
     where device_hash = request.device_hash and is_approved is null and expires_at > now();
    if not found then
      return;
    end if;
    the_code_hash := code_hash_of_device(request.device_hash);
  end if;

  select * into granted
    from add_grant(the_account_id, request.application_id, request.scopes, request.resource_scope,
                   case when request.resource_scope = 'specified' then chosen_ids else '{}' end, request.resources);
  if request.device_hash is not null then
    update authorization_grant
       set device_ip = (select client_ip from device_request where device_hash = request.device_hash)
     where id = granted.id;
  end if;

  insert into authorization_code (code_hash, authorization_id, grant_id, redirect_uri, scopes, code_challenge, expires_at)
  values (the_code_hash, granted.authorization_id, granted.id, coalesce(request.redirect_uri, ''), request.scopes, request.code_challenge,
          now() + make_interval(secs => code_lifetime_seconds));
  return query select request.redirect_uri, request.state;
end
$$;
