-- Returns the approved application with this client identifier and secret; null for any other credentials.
create or replace function authenticate_application(the_client_id text, the_secret_hash bytea) returns bigint
language sql stable parallel safe as $$
  select application_id from application_credential where secret_hash = the_secret_hash and client_id = the_client_id
$$;
