import { createHmac } from 'node:crypto'
import type pg from 'pg'
import type { SiteFactorRule } from '../config.ts'
import { type Queryable, sweepOf, transaction } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import { factorProofSeconds } from '../domain/permissions.ts'
import { describePrincipal, type Principal } from '../domain/principal.ts'
import { hashSecret, makeOpaqueId, type SecretHash } from '../domain/secrets.ts'
import { insertEvents } from '../events/events.ts'
import type { Credentials } from './accounts.ts'

/** A session ends after this time without a request. */
const idleLifetimeSeconds = 7 * 86_400
/** The maximum lifetime of a session after the sign-in. */
const lifetimeSeconds = 30 * 86_400

/** SQL: whether a row of `session` is of a session that has not ended. Its account is not asked. */
export const isRunning = `expires_at > now() and last_seen_at > now() - interval '${idleLifetimeSeconds} seconds'`

/** How long a confirmed identity is enough for sensitive actions. */
const proofSeconds = 15 * 60

/** A signed-in browser. */
export interface Session {
  idHash: SecretHash
  account: SessionAccount
  /** The token of all forms on the pages of this session. */
  csrfToken: string
  /** Whether the person has confirmed their identity in the last 15 minutes. If not, sensitive actions ask for it. */
  isConfirmed: boolean
  /** Whether the person has given a code of the app or used a passkey in the last five minutes. */
  hasProvedFactor: boolean
  /**
   * Whether the person has signed in with a recovery code in the last five minutes. That is enough to replace or remove a lost
   * app, and not for what needs a second factor.
   */
  hasRecovered: boolean
  /** Whether the site or a group requires a second factor that the account does not have. */
  lacksFactor: boolean
  /** When the site or a group begins to require a second factor that the account does not have. Null for never. */
  factorDueAt: Date | null
  /** The group that requires a second factor that the account does not have, first. Null for the site, and for none. */
  factorGroup: string | null
}

export interface SessionAccount {
  id: string
  username: string
  displayName: string
  isAdmin: boolean
}

/** The proofs of a sign-in, for its event. */
export interface SignInProof {
  /** `invitation`: the person has just made the account with an invitation link. */
  method: 'password' | 'passkey' | 'provider' | 'invitation'
  /** The name of the OpenID Connect provider, for the method `provider`. */
  provider?: string
  /** False when the provider does not say that the person has just signed in there. All other proofs are recent. */
  isRecent?: boolean
  secondFactor?: 'totp' | 'recovery-code' | 'passkey'
}

/**
 * How somebody proved their identity. `passkey`: with a passkey whose device has verified the person, which is two factors.
 * `security-key`: with a passkey as one factor. `mail`: with a mailed link.
 */
export type ProofMethod =
  | SignInProof['method']
  | NonNullable<SignInProof['secondFactor']>
  | 'security-key'
  | 'mail'

/** SQL: the methods that are a second factor. */
const factorMethods = "('totp', 'passkey', 'security-key')"

/** A sign-in, for its event. */
interface SignIn {
  proof?: SignInProof
  /** Whether nobody has signed in to the account from this browser before. */
  isNewBrowser?: boolean
}

/**
 * Starts a session from a network (see `networkOf`), writes the event, and returns its id, which only the browser stores.
 * Null when the password was changed after its check, or the account was disabled. It also deletes those of the account that have ended.
 * Without `isConfirmed`, the first sensitive action asks for a proof. A session that goes on after a change of the password
 * is no sign-in: then `signIn` is null, and there is no event.
 */
export async function insertSession(
  db: Queryable,
  by: Principal,
  { accountId, passwordHash }: Credentials,
  {
    network,
    userAgent = null,
    isConfirmed = true,
    signIn = {},
  }: { network: string; userAgent?: string | null; isConfirmed?: boolean; signIn?: SignIn | null },
): Promise<string | null> {
  const id = makeOpaqueId()
  const idHash = hashSecret(id)
  const event = signIn && {
    action: 'sign-in',
    account_id: accountId,
    details: {
      session: eventKeyOf(idHash.toString('hex')),
      method: signIn.proof?.method,
      provider: signIn.proof?.provider,
      second_factor: signIn.proof?.secondFactor,
      ...(signIn.isNewBrowser === true && { new_browser: true }),
    },
  }
  const secondFactor = signIn?.proof?.secondFactor
  // As the second step, a passkey works also when its device does not verify the person.
  const second = secondFactor === 'passkey' ? 'security-key' : secondFactor
  // A change of the password asked for the former one.
  const methods = signIn === null ? ['password'] : [signIn.proof?.method, second].filter(Boolean)
  const { rowCount } = await db.query(
    // The lock waits for a running change of the password. A later change finds this session and ends it.
    `with ended as (delete from session where account_id = $2 and not (${isRunning})),
          signed_in as (select id from account
                         where id = $2 and password_hash is not distinct from $3 and disabled_at is null for share),
          made as (
            insert into session (id_hash, account_id, network, last_network, user_agent, expires_at, proved_at,
                                 factor_proved_at, recovered_at, methods)
            select $1, id, $4, $4, $6, now() + make_interval(secs => $5), case when $7 then now() else '-infinity' end,
                   case when $10 then now() else '-infinity' end, case when $11 then now() else '-infinity' end, $12
              from signed_in
            returning id_hash)
     select insert_events(the_events => $8, the_actor => $9) from made`,
    [
      idHash,
      accountId,
      passwordHash,
      network,
      lifetimeSeconds,
      userAgent,
      isConfirmed,
      JSON.stringify(event === null ? [] : [event]),
      describePrincipal(by),
      signIn?.proof?.method === 'passkey' || secondFactor === 'totp' || secondFactor === 'passkey',
      secondFactor === 'recovery-code',
      methods,
    ],
  )
  return rowCount === 1 ? id : null
}

/**
 * Returns the session of this id. Once a minute it stores the time and the network of the request. Null after its
 * end.
 */
export async function findSession(
  db: Queryable,
  id: string,
  network: string | null = null,
  site: SiteFactorRule = { of: 'off', from: null },
): Promise<Session | null> {
  const idHash = hashSecret(id)
  const { rows } = await db.query<
    SessionAccount &
      Pick<
        Session,
        'isConfirmed' | 'hasProvedFactor' | 'hasRecovered' | 'lacksFactor' | 'factorDueAt' | 'factorGroup'
      >
  >({
    name: 'find-session',
    text: `with running as (
             select s.id_hash, s.last_seen_at, s.proved_at, s.factor_proved_at, s.recovered_at, a.id, a.username, a.display_name, a.is_admin
               from session s
               join account a on a.id = s.account_id and a.disabled_at is null
              where s.id_hash = $1 and ${isRunning}
           ), seen as (
             update session s set last_seen_at = now(), last_network = coalesce($2, s.last_network)
               from running r
              where s.id_hash = r.id_hash and r.last_seen_at < now() - interval '1 minute'
           )
           select id, username, display_name as "displayName", is_admin as "isAdmin",
                  proved_at > now() - make_interval(secs => $4) as "isConfirmed",
                  factor_proved_at > now() - interval '${factorProofSeconds} seconds' as "hasProvedFactor",
                  recovered_at > now() - interval '${factorProofSeconds} seconds' as "hasRecovered",
                  coalesce(lacked.since <= now(), false) as "lacksFactor",
                  case when lacked.since > now() then lacked.since end as "factorDueAt",
                  lacked.group_name as "factorGroup"
             from running r
             left join lateral (
              select since, group_name
                from (select required_from as since, group_name from second_factor_requirement where account_id = r.id
                       union all
                      select coalesce($5::timestamptz, '-infinity'), null
                       where $3 = 'all' or ($3 = 'admins' and is_admin)) required
               order by since, group_name nulls first limit 1) lacked on not has_second_factor(r.id)`,
    values: [idHash, network, site.of, proofSeconds, site.from],
  })
  const [found] = rows
  if (!found) return null
  const { isConfirmed, hasProvedFactor, hasRecovered, lacksFactor, factorDueAt, factorGroup, ...account } =
    found
  return {
    idHash,
    account,
    csrfToken: csrfTokenOf(id),
    isConfirmed,
    hasProvedFactor,
    hasRecovered,
    lacksFactor,
    factorDueAt,
    factorGroup,
  }
}

/** Returns the form token of the browser with this cookie. Computing it requires the cookie. */
export function csrfTokenOf(cookie: string): string {
  return createHmac('sha256', cookie).update('csrf').digest('base64url')
}

/** Stores that the person of a session has just confirmed their identity, and how. */
export async function confirmSession(db: Queryable, idHash: SecretHash, method: ProofMethod): Promise<void> {
  await db.query(`update session set ${proofBy('$2')} where id_hash = $1`, [idHash, method])
}

/**
 * SQL: the assignments to a row of `session` whose person has just proved their identity. `method` is the parameter with the
 * method. Of the former methods, only those that are recent stay: others are no part of this proof (OPENID 251).
 */
export function proofBy(method: string): string {
  return `proved_at = now(),
          factor_proved_at = case when ${method} in ${factorMethods} then now() else factor_proved_at end,
          methods = array(select distinct used from unnest(methods || ${method}::text) used
                           where used = ${method}
                              or case when used in ${factorMethods}
                                      then factor_proved_at > now() - interval '${factorProofSeconds} seconds'
                                      else proved_at > now() - interval '${proofSeconds} seconds' end)`
}

/**
 * Returns when the person of a session has last proved their identity, in seconds since 1970 of the database's clock. Null
 * when it is not known, as after a sign-in at a provider that does not say so.
 */
export async function findProofTime(db: Queryable, idHash: SecretHash): Promise<number | null> {
  const { rows } = await db.query<{ seconds: number | null }>(
    `select extract(epoch from nullif(proved_at, '-infinity'))::float8 as seconds from session where id_hash = $1`,
    [idHash],
  )
  return rows[0]?.seconds ?? null
}

/**
 * Ends every session of an account, and what could still become one or act for one: links for a new password, sign-ins
 * that wait for a second factor, and consent pages. Returns the number of sessions.
 */
export async function endAllSessions(tx: pg.PoolClient, by: Principal, accountId: string): Promise<number> {
  const ended = await deleteAllSessions(tx, by, accountId)
  for (const table of ['password_reset', 'sign_in_step', 'authorization_request']) {
    await tx.query(`delete from ${table} where account_id = $1`, [accountId])
  }
  return ended
}

/** Ends every session of an account, and writes the events. Returns how many. */
export async function deleteAllSessions(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
): Promise<number> {
  return deleteSessions(tx, by, { accountId, which: 'all', action: 'session-ended' })
}

/** Deletes at most `limit` sessions that have ended, also by idle days. Returns how many it deleted. */
export const deleteExpiredSessions = sweepOf('session', 'id_hash', `not (${isRunning})`)

/** A session as its owner or an administrator sees it. */
export interface ListedSession {
  /** Hexadecimal. The id in the browser cannot be derived from it. */
  key: string
  username: string
  network: string
  /** Null in sessions of an earlier release. The user agent is null there too. */
  lastNetwork: string | null
  userAgent: string | null
  createdAt: Date
  lastSeenAt: Date
  expiresAt: Date
}

/** SQL: reads `ListedSession`s that have not ended. */
const selectSessions = `
  select encode(s.id_hash, 'hex') as key, a.username, s.network, s.last_network as "lastNetwork",
         s.user_agent as "userAgent", s.created_at as "createdAt",
         s.last_seen_at as "lastSeenAt", s.expires_at as "expiresAt"
    from session s join account a on a.id = s.account_id
   where ${isRunning}`

/** Lists the sessions of an account, or of all accounts, by key; `after` is a key. */
export async function listSessions(
  db: Queryable,
  accountId: string | null,
  { after, limit }: ListPart,
): Promise<ListedSession[]> {
  const { rows } = await db.query<ListedSession>(
    `${selectSessions} and ($1::bigint is null or s.account_id = $1) and s.id_hash > decode($2, 'hex')
      order by s.id_hash limit $3`,
    [accountId, /^(?:[0-9a-f]{2})+$/.test(after ?? '') ? after : '', limit],
  )
  return rows
}

/** Lists the sessions of an account that were seen last, the latest first. */
export async function listLatestSessions(
  db: Queryable,
  accountId: string,
  limit: number,
): Promise<ListedSession[]> {
  const { rows } = await db.query<ListedSession>(
    `${selectSessions} and s.account_id = $1 order by s.last_seen_at desc, s.id_hash limit $2`,
    [accountId, limit],
  )
  return rows
}

/** Which sessions of an account: all, one, those whose key has a prefix, or all except one. */
export type WhichSessions = 'all' | { idHash: SecretHash } | { key: string } | { except: SecretHash }

/**
 * Ends sessions of an account, writes the events, and returns how many. What its tokens and applications may do stays.
 * The action is `sign-out` when the person signs out.
 */
export async function endSessions(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  which: WhichSessions,
  action: 'session-ended' | 'sign-out' = 'session-ended',
): Promise<number> {
  return transaction(db, (tx) => deleteSessions(tx, by, { accountId, which, action }))
}

async function deleteSessions(
  tx: pg.PoolClient,
  by: Principal,
  {
    accountId,
    which,
    action,
  }: { accountId: string; which: WhichSessions; action: 'session-ended' | 'sign-out' },
): Promise<number> {
  const [condition, value] = conditionOf(which)
  const { rows } = await tx.query<{ key: string; isRunning: boolean }>(
    `delete from session where account_id = $1 and ${condition}
  returning encode(id_hash, 'hex') as key, ${isRunning} as "isRunning"`,
    value === null ? [accountId] : [accountId, value],
  )
  // An expired session has ended before, without an event.
  const events = rows.flatMap((row) =>
    row.isRunning ? [{ action, accountId, details: { session: eventKeyOf(row.key) } }] : [],
  )
  await insertEvents(tx, by, events)
  return rows.length
}

function conditionOf(which: WhichSessions): [string, SecretHash | string | null] {
  if (which === 'all') return ['true', null]
  if ('idHash' in which) return ['id_hash = $2', which.idHash]
  if ('key' in which) return [`starts_with(encode(id_hash, 'hex'), $2)`, which.key]
  return ['id_hash <> $2', which.except]
}

/** Returns the part of a session's key that tells in events which session it is. */
function eventKeyOf(key: string): string {
  return key.slice(0, 16)
}
