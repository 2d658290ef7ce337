-- Removes functions that no supported release calls. redeem_codes, refresh_pairs and end_tokens replaced them. A new
-- database has the first versions of some of them, from 0006_token_endpoints.sql.
drop function if exists exchange_code(text, bytea, bytea, text, text, bytea, bytea, integer, integer);
drop function if exists exchange_codes(text[], bytea[], bytea[], text[], text[], bytea[], bytea[], integer, integer);
drop function if exists refresh_pair(text, bytea, bytea, text[], bytea, bytea, bytea, integer, integer, integer);
drop function if exists revoke_token(text, bytea, bytea);
drop function if exists revoke_tokens(text[], bytea[], bytea[]);
drop function if exists lock_authorization(bigint);
drop function if exists authenticate_application(text, bytea);
