-- `verified` of an email is true only after somebody verified it (DESIGN §6).
alter table account add column email_verified_at timestamptz
  constraint only_an_email_can_be_verified check (email_verified_at is null or email is not null);

-- Trigger function: a new email is not verified, even when the statement that sets it does not say so.
create or replace function forget_email_verification() returns trigger language plpgsql as $$
begin
  new.email_verified_at := null;
  return new;
end
$$;

create trigger new_email_is_not_verified before update of email on account
  for each row when (new.email is distinct from old.email and new.email_verified_at is not distinct from old.email_verified_at)
  execute function forget_email_verification();
