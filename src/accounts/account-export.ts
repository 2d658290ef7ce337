import type { Queryable } from '../database/database.ts'
import { isRunning } from './sessions.ts'

/** The maximum number of events, and of downloads, in an export, latest first. All events are at `/settings/security`. */
const maxEvents = 10_000

/**
 * Returns everything that svc stores about an account, without secrets. Null when the account no longer exists. It does not name
 * watched repositories and groups that the person may no longer see: their names may have changed since.
 */
export async function exportAccount(db: Queryable, accountId: string): Promise<object | null> {
  const { rows } = await db.query<{ exported: object }>(
    `select json_build_object(
       'exported_at', now(),
       'account', json_build_object(
         'id', a.id, 'username', a.username, 'name', a.display_name, 'email', a.email,
         'email_verified_at', a.email_verified_at, 'admin', a.is_admin, 'created_at', a.created_at),
       'groups', (select coalesce(json_agg(json_build_object('group', g.name, 'role', m.role) order by g.name), '[]')
                    from group_member m join repository_group g on g.id = m.group_id where m.account_id = a.id),
       'repositories', (select coalesce(json_agg(json_build_object('repository', g.name || '/' || r.name, 'role', m.role)
                                                 order by g.name, r.name), '[]')
                          from repository_member m join repository r on r.id = m.repository_id
                          join repository_group g on g.id = r.group_id where m.account_id = a.id),
       'directory_user', (select json_build_object(
                                   'issuer', d.issuer, 'user_name', d.user_name, 'external_id', d.external_id,
                                   'given_name', d.given_name, 'family_name', d.family_name, 'active', d.is_active,
                                   'created_at', d.created_at, 'changed_at', d.changed_at, 'removed_at', d.removed_at,
                                   'groups', (select coalesce(json_agg(dg.display_name order by dg.display_name), '[]')
                                                from directory_group_member dm join directory_group dg on dg.id = dm.group_id
                                               where dm.account_id = a.id))
                            from directory_user d where d.account_id = a.id),
       'identities', (select coalesce(json_agg(json_build_object(
                               'issuer', i.issuer, 'subject', i.subject, 'email', i.email,
                               'linked_at', i.linked_at, 'last_used_at', i.last_used_at) order by i.issuer), '[]')
                        from account_identity i where i.account_id = a.id),
       'authenticator_app_since', (select f.confirmed_at from totp_factor f where f.account_id = a.id),
       'passkeys', (select coalesce(json_agg(json_build_object(
                             'name', k.name, 'created_at', k.created_at, 'last_used_at', k.last_used_at) order by k.id), '[]')
                      from passkey k where k.account_id = a.id),
       'sessions', (select coalesce(json_agg(json_build_object(
                             'network', s.network, 'last_network', s.last_network, 'user_agent', s.user_agent,
                             'created_at', s.created_at, 'last_seen_at', s.last_seen_at) order by s.created_at), '[]')
                      from session s where s.account_id = a.id and ${isRunning}),
       'tokens', (select coalesce(json_agg(json_build_object(
                           'name', t.name, 'scopes', t.scopes, 'resource_scope', t.resource_scope, 'admin', t.is_admin,
                           'created_at', t.created_at, 'last_used_at', t.last_used_at,
                           'expires_at', nullif(t.expires_at, 'infinity'), 'revoked_at', t.revoked_at) order by t.id), '[]')
                    from personal_token t where t.account_id = a.id),
       'authorizations', (select coalesce(json_agg(json_build_object(
                                   'application', c.name, 'client_id', c.client_id, 'scopes', h.scopes,
                                   'resource_scope', h.resource_scope, 'granted_at', h.granted_at,
                                   'device_ip', host(h.device_ip), 'last_used_at', h.last_used_at,
                                   'ended_at', h.ended_at) order by h.id), '[]')
                            from authorization_grant h join application c on c.id = h.application_id
                           where h.account_id = a.id),
       'developed_applications', (select coalesce(json_agg(json_build_object('application', c.name, 'client_id', c.client_id)
                                                           order by c.client_id), '[]')
                                    from application c where c.developer_id = a.id),
       'watched_repositories', (select coalesce(json_agg(g.name || '/' || r.name order by g.name, r.name), '[]')
                                  from watched_repository w join repository r on r.id = w.repository_id
                                  join repository_group g on g.id = r.group_id
                                 where w.account_id = a.id and (r.visibility = 'public' or role_of(a.id, r.id) is not null)),
       'watched_groups', (select coalesce(json_agg(g.name order by g.name), '[]')
                            from watched_group w join repository_group g on g.id = w.group_id
                           where w.account_id = a.id
                             and (exists (select from counted_group_member m where m.group_id = g.id and m.account_id = a.id)
                                  or exists (select from repository r
                                              where r.group_id = g.id
                                                and (r.visibility = 'public' or role_of(a.id, r.id) is not null)))),
       'notifications', json_build_object(
         'choices', (select coalesce(json_object_agg(n.topic, n.delivery), '{}')
                       from notification_choice n where n.account_id = a.id),
         'digest_hour', (select d.hour from digest d where d.account_id = a.id)),
       'events', (select coalesce(json_agg(json_build_object(
                           'happened_at', e.happened_at, 'action', e.action, 'via', e.via, 'ip', host(e.address),
                           'user_agent', e.user_agent, 'details', e.details) order by e.happened_at desc, e.id desc), '[]')
                    from (select * from event where account_id = a.id order by happened_at desc, id desc limit $2) e),
       'downloads', (select coalesce(json_agg(json_build_object(
                              'day', d.day, 'repository', g.name || '/' || r.name, 'package', d.package,
                              'version', d.version, 'by', d.kind, 'count', d.count) order by d.id desc), '[]')
                       from (select * from recorded_download where account_id = a.id order by id desc limit $2) d
                       left join repository r on r.id = d.repository_id
                       left join repository_group g on g.id = r.group_id)
     ) as exported
       from account a
      where a.id = $1`,
    [accountId, maxEvents],
  )
  return rows[0]?.exported ?? null
}
