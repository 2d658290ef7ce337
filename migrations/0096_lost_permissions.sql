-- Grants never allow more than the registration of their application: a scope that an application loses leaves its
-- grants, and an application that is no longer approved loses its authorizations for good. Consents lock the row of the
-- application, so a grant either sees the change or is changed.
create function end_lost_permissions() returns trigger language plpgsql as 'begin return null; end';
create trigger application_loses_permissions
  after update of status, scopes on application
  for each row when (old.status = 'approved' and (new.status <> 'approved' or new.scopes <> old.scopes))
  execute function end_lost_permissions();

-- Applications that were suspended or lost scopes before.
update account_authorization a
   set ended_at = now()
  from application c
 where c.id = a.application_id and c.status <> 'approved' and a.ended_at is null;
update authorization_grant g
   set scopes = kept.scopes
  from (select o.id, array(select s from unnest(o.scopes) as s where s = any (c.scopes) or s || 'w' = any (c.scopes)) as scopes
          from authorization_grant o
          join application c on c.id = o.application_id
         where o.ended_at is null and not o.scopes <@ c.scopes) as kept
 where g.id = kept.id and cardinality(kept.scopes) > 0;
