import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import type { Log } from '../domain/log.ts'
import { describePrincipal, type Principal } from '../domain/principal.ts'
import type { SecretHash } from '../domain/secrets.ts'

/** How long uses are gathered before one statement writes them all. */
const gatherMilliseconds = 3_000

/** Stores when authorizations, personal access tokens and deploy tokens were last used. */
export interface LastUse {
  /**
   * Remembers the use of a request's token and returns at once, so that no request waits for the database. The identity
   * event of the first use of a personal access token or deploy token names who sent the request.
   */
  note: (by: Principal) => void
  /**
   * Remembers that an application got a token. The application may use the token at another resource server, where svc
   * does not see it. The hash of an access token also remembers the use of its grant.
   */
  noteAuthorization: (authorizationId: string, accessHash: SecretHash | null) => void
  /** Writes the remembered uses. Resolves when no write runs. */
  flush: () => Promise<void>
}

/** The used tokens, each with the sender of its first remembered request. */
type Senders = Map<string, Principal>

/**
 * Starts to collect uses. The process gathers them and writes them together, at most once a minute for each token. A
 * process that dies loses a few seconds of uses.
 */
export function openLastUse(db: pg.Pool, log: Log): LastUse {
  let authorizations = new Set<string>()
  let accessHashes: SecretHash[] = []
  let pairIds = new Set<string>()
  let personalTokens: Senders = new Map()
  let deployTokens: Senders = new Map()
  let timer: NodeJS.Timeout | undefined
  let written = Promise.resolve()

  function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    // A stop closes the database after its flush. So that flush also waits for one that the timer has started.
    written = written.then(write)
    return written
  }

  async function write(): Promise<void> {
    const used = { authorizations, accessHashes, pairIds, personalTokens, deployTokens }
    authorizations = new Set()
    accessHashes = []
    pairIds = new Set()
    personalTokens = new Map()
    deployTokens = new Map()
    if ([used.authorizations, used.personalTokens, used.deployTokens].every(({ size }) => size === 0)) return
    try {
      const first = await touch(db, used)
      if (used.accessHashes.length > 0 || used.pairIds.size > 0) await touchGrants(db, used)
      for (const { kind, id } of first) {
        const senders = kind === 'personal' ? used.personalTokens : used.deployTokens
        const by = senders.get(id)
        if (by === undefined) continue
        const touchFirst = kind === 'personal' ? touchFirstOfPersonalToken : touchFirstOfDeployToken
        await touchFirst(db, by, id)
      }
    } catch (error) {
      log.warn({ err: error }, 'the last use of some tokens could not be stored')
    }
  }

  function schedule(): void {
    timer ??= setTimeout(() => void flush(), gatherMilliseconds).unref()
  }

  return {
    note(by) {
      if (by.token === null) return
      const { kind, tokenId, authorizationId } = by.token
      const senders = kind === 'personal' ? personalTokens : kind === 'deploy' ? deployTokens : null
      if (senders && !senders.has(tokenId)) senders.set(tokenId, by)
      if (authorizationId !== null) authorizations.add(authorizationId)
      if (kind === 'access') pairIds.add(tokenId)
      schedule()
    },
    noteAuthorization(authorizationId, accessHash) {
      authorizations.add(authorizationId)
      if (accessHash !== null) accessHashes.push(accessHash)
      schedule()
    },
    flush,
  }
}

interface FirstUse {
  kind: 'personal' | 'deploy'
  id: string
}

/**
 * Sets the last use to now if it is older than a minute. Skips locked rows: the next use updates them. Returns the
 * tokens that were never used before. Other statements set their first use.
 */
async function touch(
  db: Queryable,
  used: { authorizations: ReadonlySet<string>; personalTokens: Senders; deployTokens: Senders },
): Promise<FirstUse[]> {
  const { rows } = await db.query<FirstUse>({
    name: 'touch-last-use',
    text: `with personal as (
             update personal_token set last_used_at = now()
              where id in (select id from personal_token
                            where id = any($2) and last_used_at < now() - interval '1 minute'
                              for no key update skip locked)
           ), deploy as (
             update deploy_token set last_used_at = now()
              where id in (select id from deploy_token
                            where id = any($3) and last_used_at < now() - interval '1 minute'
                              for no key update skip locked)
           ), authorized as (
             update account_authorization set last_used_at = now()
              where id in (select id from account_authorization
                            where id = any($1) and coalesce(last_used_at, '-infinity') < now() - interval '1 minute'
                              for no key update skip locked)
           )
           select 'personal' as kind, id from personal_token where id = any($2) and last_used_at is null
            union all
           select 'deploy', id from deploy_token where id = any($3) and last_used_at is null`,
    values: [[...used.authorizations], [...used.personalTokens.keys()], [...used.deployTokens.keys()]],
  })
  return rows
}

/**
 * Sets the last use of the grants of these pairs, if their clients are public: of these, people see each grant with its use, and
 * the longest unused one ends (OPENID 210, 211). Skips locked rows: a later use updates them.
 */
async function touchGrants(
  db: Queryable,
  { accessHashes, pairIds }: { accessHashes: readonly SecretHash[]; pairIds: ReadonlySet<string> },
): Promise<void> {
  await db.query({
    name: 'touch-grants',
    text: `update authorization_grant set last_used_at = now()
            where id in (select g.id from authorization_grant g
                          where g.id = any(array(select coalesce(grant_id, authorization_id) from token_pair
                                                  where access_hash = any($1)
                                                  union all
                                                 select coalesce(grant_id, authorization_id) from token_pair
                                                  where id = any($2)))
                            and (select is_public from application where id = g.application_id)
                            and coalesce(g.last_used_at, '-infinity') < now() - interval '1 minute'
                            for no key update skip locked)`,
    values: [accessHashes, [...pairIds]],
  })
}

/** Sets the first use of a personal access token, and writes the event, which names who used the token. */
async function touchFirstOfPersonalToken(db: Queryable, by: Principal, id: string): Promise<void> {
  await db.query(
    `with used as (
       update personal_token set last_used_at = now()
        where id in (select id from personal_token
                      where id = $1 and last_used_at is null for no key update skip locked)
       returning account_id, name
     )
     select insert_events(
              the_events => jsonb_build_array(jsonb_build_object(
                'action', 'token-first-used', 'account_id', account_id, 'details', jsonb_build_object('name', name))),
              the_actor => $2)
       from used`,
    [id, describePrincipal(by)],
  )
}

/** Does the same for a deploy token. Its event has no account, because a group owns the token. */
async function touchFirstOfDeployToken(db: Queryable, by: Principal, id: string): Promise<void> {
  await db.query(
    `with used as (
       update deploy_token set last_used_at = now()
        where id in (select id from deploy_token
                      where id = $1 and last_used_at is null for no key update skip locked)
       returning id, name, group_id
     )
     select insert_events(
              the_events => jsonb_build_array(jsonb_build_object(
                'action', 'deploy-token-first-used', 'in_group_id', used.group_id,
                'details', jsonb_build_object('name', used.name, 'deploy_token', used.id, 'group', g.name))),
              the_actor => $2)
       from used join repository_group g on g.id = used.group_id`,
    [id, describePrincipal(by)],
  )
}
