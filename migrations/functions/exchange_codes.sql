-- Exchanges codes without actors. Only processes of the previous release call it: see redeem_codes.
create or replace function exchange_codes(
  client_ids text[], secret_hashes bytea[], code_hashes bytea[], redirect_uris text[], code_challenges text[],
  access_hashes bytea[], refresh_hashes bytea[], access_seconds integer, refresh_seconds integer)
returns table (call_number integer, outcome text, scope text, authorization_id bigint)
language sql as $$
  select call_number, outcome, scope, authorization_id
    from redeem_codes(
           client_ids => client_ids, secret_hashes => secret_hashes, code_hashes => code_hashes,
           redirect_uris => redirect_uris, code_challenges => code_challenges,
           access_hashes => access_hashes, refresh_hashes => refresh_hashes, actors => '{}',
           access_seconds => access_seconds, refresh_seconds => refresh_seconds)
$$;
