-- Returns the approved application with this client identifier and secret; null for any other credentials. The search
-- starts with the secret's hash, so an unknown client takes as long as a wrong secret.
create or replace function authenticate_application(the_client_id text, the_secret_hash bytea) returns bigint
language sql stable parallel safe as $$
  select a.id
    from application_secret s
    join application a on a.id = s.application_id
   where s.secret_hash = the_secret_hash and s.expires_at > now()
     and a.client_id = the_client_id and a.status = 'approved'
$$;
