-- The identity events. Only processes of the previous release use this view.
create or replace view identity_event as
  select id, happened_at, action, account_id, application_id, actor_id, via, address, user_agent, request_id, details
    from event
   where repository_id is null and group_id is null;
