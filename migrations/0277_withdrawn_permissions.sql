-- The trigger has a new function: the former one would have to be committed together with the table of events, which its
-- new text needs, and with all migrations between them.
create function withdraw_lost_permissions() returns trigger language plpgsql as 'begin return null; end';
drop trigger application_loses_permissions on application;
create trigger application_loses_permissions
  after update of status, scopes on application
  for each row when (old.status = 'approved' and (new.status <> 'approved' or new.scopes <> old.scopes))
  execute function withdraw_lost_permissions();
drop function end_lost_permissions();
