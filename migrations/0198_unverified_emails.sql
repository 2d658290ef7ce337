-- Several accounts may enter the same email while none of them has verified it, so a stranger can block nobody.
alter table account add column email_since timestamptz not null default now();
comment on column account.email_since is
  'When the account got its email. While nobody has verified it, the first account with it signs in by it.';
drop index email_is_taken;
alter index account_verified_email rename to email_is_taken;

-- The definition is in functions/.
create function refuse_taken_email() returns trigger language plpgsql as 'begin return null; end';
create trigger unverified_email_is_not_taken after insert or update of email on account
  for each row when (new.email is not null and new.email_verified_at is null)
  execute function refuse_taken_email();
