-- Trigger function: a new email is not verified, even if the statement does not set email_verified_at to null.
create or replace function forget_email_verification() returns trigger language plpgsql as $$
begin
  new.email_verified_at := null;
  return new;
end
$$;
