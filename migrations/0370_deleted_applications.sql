-- The deletion of an application is an event, also when a migration deletes it.
create or replace trigger identity_event_of_application after insert or update or delete on application
  for each row execute function note_application_event();
