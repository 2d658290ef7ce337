-- Inserts events in the transaction of their change. Nothing else inserts any. An event has the columns of its row; its id
-- and time are set when they are missing. The actor fills what the event does not tell about who acted: it has the account,
-- the token, or the members of the setting svc.actor. Identity events are also queued for the log. The webhooks that want a
-- message about an event get a delivery and a job in this transaction. The site's webhooks get those of everything.
-- Events that people are told about become news; of a development version nobody is told, and of a version only where
-- somebody watches.
create or replace function insert_events(the_events jsonb, the_actor jsonb default null) returns void language plpgsql as $$
begin
  with inserted as (
    insert into event (id, happened_at, action, account_id, application_id, repository_id, group_id, in_group_id, package,
                       version, actor_id, token_kind, token_id, via, address, user_agent, request_id, details)
    select coalesce(e.id, nextval('event_id_seq')), coalesce(e.happened_at, now()), e.action, e.account_id, e.application_id,
           e.repository_id, e.group_id,
           coalesce(e.in_group_id, e.group_id,
                    (select coalesce(r.group_id, r.deleted_from_id) from repository r where r.id = e.repository_id)),
           e.package, e.version,
           coalesce(e.actor_id, (the_actor ->> 'accountId')::bigint),
           coalesce(e.token_kind, the_actor #>> '{token,kind}'), coalesce(e.token_id, (the_actor #>> '{token,tokenId}')::bigint),
           coalesce(e.via, the_actor ->> 'via'), coalesce(e.address, (the_actor ->> 'ip')::inet),
           coalesce(e.user_agent, the_actor ->> 'userAgent'), coalesce(e.request_id, the_actor ->> 'requestId'),
           coalesce(e.details, '{}')
      from jsonb_populate_recordset(null::event, the_events) as e
    returning id, action, account_id, repository_id, group_id, in_group_id, version, actor_id, token_kind, details
  ), told as (
    insert into webhook_delivery (webhook_id, event_id, type)
    select w.id, i.id, webhook_type_of(i.action)
      from inserted i
      join webhook w on w.repository_id = i.repository_id or w.group_id = i.in_group_id
                        or (w.repository_id is null and w.group_id is null)
     where w.disabled_at is null
       and webhook_type_of(i.action) = any (coalesce(w.types, array[webhook_type_of(i.action)]))
     order by i.id
    returning webhook_id
  ), queued as (
    insert into job (name, key, crowd, data)
    select distinct case when w.is_slow then 'send-slow-webhook' else 'send-webhook' end, w.id::text, w.host,
           jsonb_build_object('webhookId', w.id::text)
      from told t join webhook w on w.id = t.webhook_id
  ), noted as (
    insert into news (event_id, action, repository_id, group_id, account_id, actor_id)
    select i.id, i.action, i.repository_id, i.group_id, i.account_id,
           case when n.is_act and i.token_kind is null then i.actor_id end
      from inserted i
      join notification_rule n on n.action = i.action
     where (n.audience <> 'watchers'
            -- The order makes PostgreSQL use the index, also when most rows are of one repository.
            or (select w.account_id from watched_repository w where w.repository_id = i.repository_id
                 order by w.repository_id, w.account_id limit 1) is not null
            or (select w.account_id from watched_group w where w.group_id = i.in_group_id
                 order by w.group_id, w.account_id limit 1) is not null)
       and (n.topic <> 'releases' or i.version !~* '^dev-|-dev$')
       and (i.action <> 'application-registered' or i.details ->> 'status' = 'pending')
  )
  insert into unlogged_identity_event (event_id)
  select id from inserted where repository_id is null and group_id is null;
end
$$;
