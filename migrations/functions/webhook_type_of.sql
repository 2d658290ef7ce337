-- Returns the type of the message that webhooks get about an action. Null when they get none.
-- The types are described in src/webhooks/message-types.ts.
create or replace function webhook_type_of(the_action text) returns text language sql immutable parallel safe as $$
  select case the_action
           when 'publish' then 'version.published'
           when 'stage' then 'version.staged'
           when 'release-stage' then 'version.released'
           when 'reject' then 'version.rejected'
           when 'expire' then 'version.expired'
           when 'delete' then 'version.deleted'
           when 'restore' then 'version.restored'
           when 'quarantine' then 'version.quarantined'
           when 'abandon' then 'package.abandoned'
           when 'advise' then 'advisory.published'
           when 'request-package' then 'upstream.requested'
           when 'archive-alarm' then 'upstream.alarm'
           when 'contest-package' then 'upstream.alarm'
           when 'fail-source' then 'source.failed'
           when 'refuse-tag' then 'source.failed'
           when 'token-expiring' then 'token.expiring'
           when 'deploy-token-expiring' then 'token.expiring'
           when 'affect-project' then 'project.affected'
           when 'set-member' then 'member.changed'
           when 'remove-member' then 'member.changed'
           when 'set-group-member' then 'member.changed'
           when 'remove-group-member' then 'member.changed'
         end;
$$;
