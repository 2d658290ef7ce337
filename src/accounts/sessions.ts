import type { Queryable } from '../database/database.ts'
import { hashSecret, makeOpaqueId, type SecretHash } from '../domain/secrets.ts'
import { csrfTokenOf } from '../http/csrf.ts'

/** A session ends after this long without a request… */
const idleLifetimeSeconds = 7 * 86_400
/** …and this long after its sign-in, whatever happens. */
const lifetimeSeconds = 30 * 86_400

/** A signed-in browser. */
export interface Session {
  idHash: SecretHash
  account: SessionAccount
  /** For every form on the pages of this session. */
  csrfToken: string
}

export interface SessionAccount {
  id: string
  username: string
  displayName: string
  isAdmin: boolean
}

/**
 * Begins a session from a network, as `networkOf` names it, and answers its id, which only the browser keeps.
 * Sessions long over are removed on the way.
 */
export async function insertSession(db: Queryable, accountId: string, network: string): Promise<string> {
  const id = makeOpaqueId()
  await db.query(
    `with over as (delete from session where expires_at < now())
     insert into session (id_hash, account_id, network, expires_at)
     values ($1, $2, $3, now() + make_interval(secs => $4))`,
    [hashSecret(id), accountId, network, lifetimeSeconds],
  )
  return id
}

/** The running session of that id, and notes, once a minute, that it was seen. Null when it is over. */
export async function findSession(db: Queryable, id: string): Promise<Session | null> {
  const idHash = hashSecret(id)
  const { rows } = await db.query<SessionAccount>({
    name: 'find-session',
    text: `with running as (
             select s.id_hash, s.last_seen_at, a.id, a.username, a.display_name, a.is_admin
               from session s
               join account a on a.id = s.account_id and a.disabled_at is null
              where s.id_hash = $1 and s.expires_at > now()
                and s.last_seen_at > now() - make_interval(secs => $2)
           ), seen as (
             update session s set last_seen_at = now()
               from running r
              where s.id_hash = r.id_hash and r.last_seen_at < now() - interval '1 minute'
           )
           select id, username, display_name as "displayName", is_admin as "isAdmin" from running`,
    values: [idHash, idleLifetimeSeconds],
  })
  const account = rows[0]
  return account ? { idHash, account, csrfToken: csrfTokenOf(id) } : null
}

/** Ends a session. */
export async function deleteSession(db: Queryable, idHash: SecretHash): Promise<void> {
  await db.query(`delete from session where id_hash = $1`, [idHash])
}

/** Ends every session of an account. */
export async function deleteSessions(db: Queryable, accountId: string): Promise<void> {
  await db.query(`delete from session where account_id = $1`, [accountId])
}
