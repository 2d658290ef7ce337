-- The credentials that authenticate approved applications. A lookup starts with the secret's hash, so it takes equally long
-- for an unknown client and for a wrong secret. A public client has no secret: its credential is the hash of the empty
-- text, which no request can send as a secret.
create or replace view application_credential as
  select s.secret_hash, a.client_id, a.id as application_id, a.is_resource_server, a.is_public
    from application_secret s
    join application a on a.id = s.application_id
   where s.expires_at > now() and a.status = 'approved' and not a.is_public
  union all
  select sha256(''), client_id, id, is_resource_server, is_public
    from application
   where is_public and status = 'approved';
