-- Trigger function: a new email is not verified, even when the statement that sets it does not say so.
create or replace function forget_email_verification() returns trigger language plpgsql as $$
begin
  new.email_verified_at := null;
  return new;
end
$$;
