-- Exchanges one code. Only processes of the previous release call it: see exchange_codes.
create or replace function exchange_code(
  the_client_id text, the_secret_hash bytea, the_code_hash bytea, the_redirect_uri text, the_code_challenge text,
  new_access_hash bytea, new_refresh_hash bytea, access_seconds integer, refresh_seconds integer,
  out outcome text, out scopes text[])
language sql as $$
  select outcome, string_to_array(scope, ' ')
    from exchange_codes(
           client_ids => array[the_client_id], secret_hashes => array[the_secret_hash], code_hashes => array[the_code_hash],
           redirect_uris => array[the_redirect_uri], code_challenges => array[the_code_challenge],
           access_hashes => array[new_access_hash], refresh_hashes => array[new_refresh_hash],
           access_seconds => access_seconds, refresh_seconds => refresh_seconds)
$$;
