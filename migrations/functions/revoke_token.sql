-- Revokes a token (SPEC 4.3, RFC 7009): a refresh token ends its authorization, an access token only itself.
-- False when the client's authentication fails. A token that is not live, or not this client's, changes nothing.
create or replace function revoke_token(the_client_id text, the_secret_hash bytea, the_token_hash bytea) returns boolean
language plpgsql as $$
declare
  the_application_id bigint := authenticate_application(the_client_id, the_secret_hash);
begin
  if the_application_id is null then
    return false;
  end if;

  update account_authorization
     set ended_at = now()
   where id = (select authorization_id from token_pair where refresh_hash = the_token_hash and refresh_expires_at > now())
     and application_id = the_application_id and ended_at is null;

  update token_pair p
     set access_expires_at = now()
   where access_hash = the_token_hash and access_expires_at > now()
     and (select application_id from account_authorization where id = p.authorization_id) = the_application_id;
  return true;
end
$$;
