-- The second factors of accounts: confirmed authenticator apps, and passkeys.
create or replace view second_factor as
select account_id from totp_factor where confirmed_at is not null
 union all
select account_id from passkey;
