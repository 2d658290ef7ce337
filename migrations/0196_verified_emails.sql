-- An email that nobody verified may be anybody's: only verified ones belong to one account. It takes the name email_is_taken.
create unique index concurrently if not exists account_verified_email on account (lower(email))
 where email_verified_at is not null;
