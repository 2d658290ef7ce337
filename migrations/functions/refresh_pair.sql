-- Exchanges one refresh token. Only processes of the previous release call it: see refresh_pairs.
create or replace function refresh_pair(
  the_client_id text, the_secret_hash bytea, the_refresh_hash bytea, asked_scopes text[],
  new_access_hash bytea, new_refresh_hash bytea, the_sealed_successor bytea,
  access_seconds integer, refresh_seconds integer, grace_seconds integer,
  out outcome text, out scopes text[], out expires_in integer, out sealed_pair bytea)
language sql as $$
  select outcome, string_to_array(scope, ' '), expires_in, sealed_pair
    from refresh_pairs(
           client_ids => array[the_client_id], secret_hashes => array[the_secret_hash],
           refresh_hashes => array[the_refresh_hash], asked_scopes => array[array_to_string(asked_scopes, ' ')],
           access_hashes => array[new_access_hash], next_refresh_hashes => array[new_refresh_hash],
           sealed_successors => array[the_sealed_successor],
           access_seconds => access_seconds, refresh_seconds => refresh_seconds, grace_seconds => grace_seconds)
$$;
