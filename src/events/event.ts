import { accountName } from '../database/account-name.ts'
import type { Principal } from '../domain/principal.ts'

/** A stored event of an account, an application, a group or a repository. */
export interface Event {
  id: string
  happenedAt: Date
  /** One of `identityWords` or `registryWords`. A newer release may have more. */
  action: string
  /** The account that it is about. Null for an application, or for a sign-in with an unknown name. */
  username: string | null
  /** The application that it is about. */
  application: string | null
  clientId: string | null
  /** The account that acted. Null for a command, an application, or an unknown person. */
  actor: string | null
  via: Principal['via'] | null
  ip: string | null
  userAgent: string | null
  requestId: string | null
  details: Record<string, unknown>
  /** The path, such as `acme/php`. For a deleted repository it is the last path. Null for other events. */
  repositoryPath: string | null
  /** The group that the event is about. For a deleted group it is the last name. Null for an event of a repository. */
  groupName: string | null
  packageName: string | null
  version: string | null
  tokenKind: NonNullable<Principal['token']>['kind'] | null
  tokenId: string | null
  /** The name of a deploy token, the project of a trusted publisher, or the URL of a Git source. Null for other tokens. */
  tokenName: string | null
  /** The name of a personal access token of the reader. Null for tokens of other accounts, and for other kinds. */
  ownTokenName: string | null
}

/** SQL that tells whether an event `e` is one of an account, its credentials or an application. Ids are unique among these. */
export const isIdentityEvent = 'e.repository_id is null and e.group_id is null'

/** SQL that tells whether an event `e` is one of a repository or group. Ids are unique among these. */
export const isRegistryEvent = '(e.repository_id is not null or e.group_id is not null)'

/** SQL for the name of the account `a` that caused an event `e`. */
export const actorName = accountName('e.actor_id', 'a.username')

/** What a reader sees of an event, as SQL. */
interface Sight {
  /** The id of the account that reads, for the names of its own tokens. */
  reader?: string
  ip?: string
  userAgent?: string
  requestId?: string
  details?: string
}

/** Returns SQL for the columns of `Event`, of an event `e` with `eventJoins`. */
export function eventColumns({
  reader = 'null',
  ip = 'host(e.address)',
  userAgent = 'e.user_agent',
  requestId = 'e.request_id',
  details = 'named_details(e.details)',
}: Sight = {}): string {
  return `e.id, e.happened_at as "happenedAt", e.action, ${accountName('e.account_id', 'u.username')} as username,
          c.name as application, c.client_id as "clientId", ${actorName} as actor, e.via,
          ${ip} as ip, ${userAgent} as "userAgent", ${requestId} as "requestId", ${details} as details,
          e.package as "packageName", e.version, e.token_kind as "tokenKind", e.token_id as "tokenId",
          case e.token_kind
            when 'deploy' then (select name from deploy_token where id = e.token_id)
            when 'publisher' then (select coalesce(project, issuer) from trusted_publisher where id = e.token_id)
            when 'source' then (select url from source where id = e.token_id)
          end as "tokenName",
          (select name from personal_token
            where e.token_kind = 'personal' and id = e.token_id and account_id = ${reader}) as "ownTokenName",
          -- The last event of a deleted repository or group has its name.
          coalesce((select o.name || '/' || r.name from repository r join repository_group o on o.id = r.group_id
                     where r.id = e.repository_id),
                   (select d.details ->> 'path' from event d
                     where d.repository_id = e.repository_id and d.action = 'delete-repository'
                     order by d.id desc limit 1)) as "repositoryPath",
          case when e.repository_id is null then
            coalesce((select name from repository_group where id = e.in_group_id),
                     (select d.details ->> 'name' from event d
                       where d.group_id = e.group_id and d.action = 'delete-group' order by d.id desc limit 1))
          end as "groupName"`
}

/** SQL that joins the accounts and the application of an event `e`. */
export const eventJoins = `left join account u on u.id = e.account_id
       left join account a on a.id = e.actor_id
       left join application c on c.id = e.application_id`

/** Returns an identity event in the format of the log, and of the history of an application. */
export function describeIdentityEvent(event: Event) {
  return {
    id: Number(event.id),
    happened_at: event.happenedAt.toISOString(),
    action: event.action,
    account: event.username,
    application: event.application,
    client_id: event.clientId,
    actor: event.actor,
    via: event.via,
    ip: event.ip,
    user_agent: event.userAgent,
    request_id: event.requestId,
    details: event.details,
  }
}

/** Returns an event in the format of commands and exports. The API names the accounts in another way. */
export function describeEvent(event: Event) {
  const { tokenKind, tokenId, tokenName, groupName, repositoryPath } = event
  // An export describes many thousands of events. A spread of so many members takes ten times as long.
  return Object.assign(describeIdentityEvent(event), {
    group: groupName ?? repositoryPath?.split('/')[0] ?? null,
    repository: event.repositoryPath,
    package: event.packageName,
    version: event.version,
    token: tokenKind && { kind: tokenKind, id: Number(tokenId), name: tokenName },
  })
}
