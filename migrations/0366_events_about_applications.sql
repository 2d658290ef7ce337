-- What happened to an application, latest first. It replaces event_of_application, which has the order of the ids.
create index concurrently if not exists event_about_application on event (application_id, happened_at, id)
  where application_id is not null;
