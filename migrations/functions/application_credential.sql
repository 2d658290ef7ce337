-- The secrets that authenticate approved applications. A search starts with the secret's hash, so an unknown client
-- takes as long as a wrong secret.
create or replace view application_credential as
  select s.secret_hash, a.client_id, a.id as application_id
    from application_secret s
    join application a on a.id = s.application_id
   where s.expires_at > now() and a.status = 'approved';
