-- Revokes one token. Only processes of the previous release call it: see revoke_tokens.
create or replace function revoke_token(the_client_id text, the_secret_hash bytea, the_token_hash bytea) returns boolean
language sql as $$
  select is_authenticated
    from revoke_tokens(client_ids => array[the_client_id], secret_hashes => array[the_secret_hash],
                       token_hashes => array[the_token_hash])
$$;
