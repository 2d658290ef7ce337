-- Trigger function: refuses an email that another account has verified. For two accounts that verify it, the index
-- email_is_taken decides.
create or replace function refuse_taken_email() returns trigger language plpgsql as $$
begin
  if exists (select from account
              where lower(email) = lower(new.email) and email_verified_at is not null and id <> new.id) then
    raise unique_violation using constraint = 'email_is_taken', message = 'another account has verified the email';
  end if;
  return null;
end
$$;
