-- Revokes tokens without actors. Only processes of the previous release call it: see end_tokens.
create or replace function revoke_tokens(client_ids text[], secret_hashes bytea[], token_hashes bytea[])
returns table (call_number integer, is_authenticated boolean)
language sql as $$
  select call_number, is_authenticated
    from end_tokens(client_ids => client_ids, secret_hashes => secret_hashes, token_hashes => token_hashes, actors => '{}')
$$;
