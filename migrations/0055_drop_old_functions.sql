-- Removes functions that no supported release calls. A new database has lock_authorization from
-- 0006_token_endpoints.sql.
drop function if exists lock_authorization(bigint);
drop function if exists authenticate_application(text, bytea);
