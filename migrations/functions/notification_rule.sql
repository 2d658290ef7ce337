-- The events that people are told about: the topic that they choose, and who is told (audience_of has the kinds). With
-- is_act, who did it in a browser or with a command is not told. The topics are described in src/notifications/topics.ts.
create or replace view notification_rule as
select *
  from (values
    ('publish', 'releases', 'watchers', true),
    ('stage', 'approvals', 'developers', true),
    ('request-package', 'approvals', 'admins', true),
    ('application-registered', 'approvals', 'site', true),
    ('application-pending', 'approvals', 'site', true),
    ('archive-alarm', 'alarms', 'admins', false),
    ('contest-package', 'alarms', 'admins', false),
    ('fail-source', 'alarms', 'admins', false),
    ('refuse-tag', 'alarms', 'admins', false),
    ('disable-webhook', 'alarms', 'admins', false),
    ('webhook-disabled', 'alarms', 'site', false),
    ('application-unreachable', 'alarms', 'account or site', false),
    ('reservation-lapsing', 'alarms', 'admins', false),
    ('affect-project', 'advisories', 'admins', false),
    ('quarantine', 'advisories', 'admins and watchers', true),
    ('advise', 'advisories', 'admins and watchers', true),
    ('token-expiring', 'tokens', 'account', false),
    ('deploy-token-expiring', 'tokens', 'admins', false),
    ('create-deploy-token', 'tokens', 'admins', true),
    ('add-publisher', 'tokens', 'admins', true)
  ) as rule (action, topic, audience, is_act);
