-- The events of repositories and groups. Only processes of the previous release use this view.
create or replace view registry_event as
  select id, happened_at, repository_id, package, version, action, actor_id as account_id, token_kind, token_id, address,
         details, group_id
    from event
   where repository_id is not null or group_id is not null;
