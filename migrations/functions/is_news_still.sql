-- Returns whether what an event tells is still so: what it asks for is not decided, and what it warns of has not ended. True
-- for other events. Mails leave out the rest.
create or replace function is_news_still(e event) returns boolean language sql stable parallel safe as $$
  select case e.action
    when 'stage' then exists (select from staged_version where id = (e.details ->> 'stage')::bigint and state = 'staged')
    when 'request-package' then exists (
      select from mirrored_package
       where repository_id = e.repository_id and name = e.package and requested_at is not null and approved_at is null)
    when 'application-registered' then exists (select from application where id = e.application_id and status = 'pending')
    when 'application-pending' then exists (select from application where id = e.application_id and status = 'pending')
    when 'fail-source' then exists (
      select from source where id = (e.details ->> 'source')::bigint and failing_since is not null and removed_at is null)
    when 'disable-webhook' then exists (
      select from webhook where id = (e.details ->> 'webhook')::bigint and disabled_at is not null)
    when 'webhook-disabled' then exists (
      select from webhook where id = (e.details ->> 'webhook')::bigint and disabled_at is not null)
    when 'application-unreachable' then exists (
      select from application where id = e.application_id and status = 'approved' and backchannel_logout_uri is not null)
    when 'affect-project' then exists (
      select from project p join project_finding f on f.project_id = p.id
       where p.group_id = e.group_id and p.name = e.details ->> 'project' and f.environment = e.details ->> 'environment'
         and f.resolved_at is null)
    when 'reservation-lapsing' then exists (
      select from trusted_publisher p cross join unnest(p.packages) exact
       where p.id = (e.details ->> 'publisher')::bigint and p.removed_at is null and exact not like '%*%'
         and not exists (select from package where repository_id = p.repository_id and name = exact))
    when 'token-expiring' then exists (
      select from personal_token
       where id = (e.details ->> 'token')::bigint and revoked_at is null and expires_at > now())
    when 'deploy-token-expiring' then exists (
      select from deploy_token
       where id = (e.details ->> 'deploy_token')::bigint and revoked_at is null and expires_at > now())
    else true
  end
$$;
