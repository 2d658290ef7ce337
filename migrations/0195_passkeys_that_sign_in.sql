-- Only a passkey that is discoverable and verifies the person can replace the password, and so be the only way to sign in.
-- The passkeys of before are not known, until one signs in without a password.
alter table passkey add column can_sign_in boolean;
comment on column passkey.can_sign_in is
  'Whether it can replace the password. Null when the browser did not say, until its first sign-in without a password.';
