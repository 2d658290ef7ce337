-- Identity events are found by application and by time, and an application is named as the one that acted.
create index on identity_event (application_id, id) where application_id is not null;
create index on identity_event (happened_at);
-- Not validated: every older value is allowed by the new rule, and the table may be large.
alter table identity_event drop constraint via_is_browser_api_or_command;
alter table identity_event add constraint via_is_browser_api_command_or_application
  check (via in ('browser', 'api', 'command', 'application')) not valid;
comment on column identity_event.via is
  'application: the application of the event acted, at an OAuth endpoint. Null: SQL without the setting svc.actor.';
