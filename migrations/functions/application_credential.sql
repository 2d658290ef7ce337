-- The secrets that authenticate approved applications. A lookup starts with the secret's hash, so it takes equally long
-- for an unknown client and for a wrong secret.
create or replace view application_credential as
  select s.secret_hash, a.client_id, a.id as application_id, a.is_resource_server
    from application_secret s
    join application a on a.id = s.application_id
   where s.expires_at > now() and a.status = 'approved';
