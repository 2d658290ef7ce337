-- Trigger function: a new email begins now and is not verified, even if the statement does not say so. Every
-- link for a new password stops working, because it may have been sent to the old email, a mailbox that the person lost.
create or replace function forget_email_verification() returns trigger language plpgsql as $$
begin
  if old.email_verified_at is not null then
    delete from password_reset where account_id = new.id;
  end if;
  new.email_verified_at := null;
  new.email_since := now();
  return new;
end
$$;
