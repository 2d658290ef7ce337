-- The accounts with an email, which may be several while none of them has verified it.
create index concurrently if not exists account_email on account (lower(email));
