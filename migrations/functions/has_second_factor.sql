-- Returns whether the account has a second factor: a confirmed authenticator app, or a passkey.
create or replace function has_second_factor(the_account_id bigint) returns boolean
language sql stable parallel safe as $$
  select exists (select from totp_factor where account_id = the_account_id and confirmed_at is not null)
      or exists (select from passkey where account_id = the_account_id)
$$;
