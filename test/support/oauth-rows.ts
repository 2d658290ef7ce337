import type pg from 'pg'
import type { Queryable } from '../../src/database/database.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import type { Application } from '../../src/oauth/applications.ts'

type Id = { id: string }

/** What an administrator can change of a registration. */
export type RegistrationChange = Partial<
  Pick<
    Application,
    'name' | 'scopes' | 'resourceScope' | 'redirectUri' | 'exactRedirect' | 'status' | 'isPublic' | 'isDevice'
  >
>

/** Changes the registration of an application, without the checks of the product. */
export async function changeRegistration(
  db: Queryable,
  { id }: Id,
  { name, scopes, resourceScope, redirectUri, exactRedirect, status, isPublic, isDevice }: RegistrationChange,
): Promise<void> {
  await db.query(
    `update application
        set name = coalesce($2, name), scopes = coalesce($3, scopes), resource_scope = coalesce($4, resource_scope),
            redirect_uri = coalesce($5, redirect_uri), exact_redirect = coalesce($6, exact_redirect),
            status = coalesce($7, status), is_public = coalesce($8, is_public), is_device = coalesce($9, is_device)
      where id = $1`,
    [id, name, scopes, resourceScope, redirectUri, exactRedirect, status, isPublic, isDevice],
  )
}

/** Lists the client secrets of an application: their hashes, and the seconds until they expire. */
export async function listClientSecrets(
  db: Queryable,
  application: Id,
): Promise<{ secretHash: Buffer; seconds: number }[]> {
  const { rows } = await db.query<{ secretHash: Buffer; seconds: number }>(
    `select secret_hash as "secretHash", extract(epoch from expires_at - now())::float8 as seconds
       from application_secret where application_id = $1 order by expires_at`,
    [application.id],
  )
  return rows
}

/** Lets the client secrets of an application expire an hour earlier. */
export async function ageClientSecrets(db: Queryable, { id }: Id): Promise<void> {
  await db.query(
    `update application_secret set expires_at = expires_at - interval '1 hour' where application_id = $1`,
    [id],
  )
}

/** Lists the ids of the authorizations of an account, also of those that have ended. */
export async function listAuthorizationIds(db: Queryable, account: Id): Promise<string[]> {
  const listing = 'select id from account_authorization where account_id = $1 order by id'
  return (await db.query<Id>(listing, [account.id])).rows.map(({ id }) => id)
}

/** Ends an authorization, as a withdrawal does. */
export async function endAuthorization(db: Queryable, { id }: Id): Promise<void> {
  await db.query('update account_authorization set ended_at = now() where id = $1', [id])
}

/** Ends all authorizations of an account. */
export async function endAuthorizationsOf(db: Queryable, account: Id): Promise<void> {
  await db.query('update account_authorization set ended_at = now() where account_id = $1', [account.id])
}

/** Ends the grants of an authorization, but not the authorization. */
export async function endGrants(db: Queryable, authorization: Id): Promise<void> {
  await db.query('update authorization_grant set ended_at = now() where authorization_id = $1', [
    authorization.id,
  ])
}

/** Returns whether an authorization has ended. */
export async function hasEnded(db: Queryable, authorization: Id): Promise<boolean | undefined> {
  const { rows } = await db.query<{ hasEnded: boolean }>(
    'select ended_at is not null as "hasEnded" from account_authorization where id = $1',
    [authorization.id],
  )
  return rows[0]?.hasEnded
}

/** Counts the grants that have ended. */
export async function countEndedGrants(db: Queryable): Promise<number> {
  return (await db.query('select from authorization_grant where ended_at is not null')).rowCount ?? 0
}

/** Lets the grants of an account be of a release that did not store when they were given. */
export async function forgetWhenGranted(db: Queryable, account: Id): Promise<void> {
  await db.query('update authorization_grant set granted_at = null where account_id = $1', [account.id])
}

/** Lets an account have given its authorizations at this time. */
export async function dateAuthorizations(db: Queryable, account: Id, grantedAt: Date): Promise<void> {
  await db.query('update account_authorization set granted_at = $2 where account_id = $1', [
    account.id,
    grantedAt,
  ])
}

/** What a grant allows. */
export interface StoredGrant {
  scopes: string[]
  /** The paths of the chosen repositories, in their order. */
  paths: string[]
}

/** Lists the grants of an account that have not ended. */
export async function liveGrantsOf(db: Queryable, account: Id): Promise<StoredGrant[]> {
  const { rows } = await db.query<StoredGrant>(
    `select a.scopes, array(select g.name || '/' || r.name
                              from repository r join repository_group g on g.id = r.group_id
                             where r.id = any (a.repository_ids) order by 1) as paths
       from authorization_grant a where a.account_id = $1 and a.ended_at is null order by a.id`,
    [account.id],
  )
  return rows
}

/** Counts what the consents of an account have left in the database. */
export async function countConsents(
  db: Queryable,
  account: Id,
): Promise<{ authorizations: number; grants: number; codes: number }> {
  const { rows } = await db.query<{ authorizations: number; grants: number; codes: number }>(
    `select (select count(*)::int from account_authorization where account_id = $1) as authorizations,
            (select count(*)::int from authorization_grant where account_id = $1) as grants,
            (select count(*)::int from authorization_code c join account_authorization a on a.id = c.authorization_id
              where a.account_id = $1) as codes`,
    [account.id],
  )
  return rows[0] as { authorizations: number; grants: number; codes: number }
}

/** What the database has about an authorization code. */
export interface StoredCode {
  scopes: string[]
  redirectUri: string | null
  codeChallenge: string | null
  redeemedAt: Date | null
  /** The seconds until it expires. */
  seconds: number
}

/** Finds an authorization code. */
export async function storedCode(db: Queryable, code: string): Promise<StoredCode | undefined> {
  const { rows } = await db.query<StoredCode>(
    `select scopes, redirect_uri as "redirectUri", code_challenge as "codeChallenge", redeemed_at as "redeemedAt",
            extract(epoch from expires_at - now())::float8 as seconds
       from authorization_code where code_hash = $1`,
    [hashSecret(code)],
  )
  return rows[0]
}

/** Lets all codes that are used be used this long ago, or in the future. */
export async function setRedemptionAge(db: Queryable, ago: string): Promise<void> {
  await db.query(
    'update authorization_code set redeemed_at = now() - $1::interval where redeemed_at is not null',
    [ago],
  )
}

/** What the database has about the pair of a refresh token. */
export interface StoredPair {
  supersededAt: Date | null
  sealedSuccessor: Buffer | null
}

/** Finds the pair of a refresh token. */
export async function storedPair(db: Queryable, refreshToken: string): Promise<StoredPair | undefined> {
  const { rows } = await db.query<StoredPair>(
    `select superseded_at as "supersededAt", sealed_successor as "sealedSuccessor"
       from token_pair where refresh_hash = $1`,
    [hashSecret(refreshToken)],
  )
  return rows[0]
}

/** Lets a refresh token expire after this time. */
export async function expireRefreshToken(db: Queryable, refreshToken: string, after: string): Promise<void> {
  await db.query('update token_pair set refresh_expires_at = now() + $2::interval where refresh_hash = $1', [
    hashSecret(refreshToken),
    after,
  ])
}

/** Lets all pairs that were refreshed be so for a day, and their refresh tokens be expired for a day. */
export async function ageSupersededPairs(db: Queryable): Promise<void> {
  await db.query(
    `update token_pair
        set superseded_at = now() - interval '1 day', refresh_expires_at = now() - interval '1 day'
      where superseded_at is not null`,
  )
}

/** Returns the hashes of the refresh tokens whose pairs have a sealed successor. */
export async function listSealedPairs(db: Queryable): Promise<Buffer[]> {
  const { rows } = await db.query<{ hash: Buffer }>(
    'select refresh_hash as hash from token_pair where sealed_successor is not null',
  )
  return rows.map(({ hash }) => hash)
}

/** Counts the pairs that came from refreshing these tokens, and the pairs that they came from. */
export async function countSuccessors(
  db: Queryable,
  refreshTokens: readonly string[],
): Promise<{ successors: number; predecessors: number }> {
  const { rows } = await db.query<{ successors: number; predecessors: number }>(
    `select count(*)::int as successors, count(distinct predecessor_id)::int as predecessors
       from token_pair where predecessor_id in (select id from token_pair where refresh_hash = any ($1))`,
    [refreshTokens.map(hashSecret)],
  )
  return rows[0] as { successors: number; predecessors: number }
}

/** Locks the newest pair of these refresh tokens. */
export async function lockNewestPair(tx: pg.PoolClient, refreshTokens: readonly string[]): Promise<void> {
  await tx.query(
    `select from token_pair where id = (select max(id) from token_pair where refresh_hash = any ($1)) for update`,
    [refreshTokens.map(hashSecret)],
  )
}

/** Locks the one of these codes that a batch of exchanges comes to last. */
export async function lockLastCode(tx: pg.PoolClient, codes: readonly string[]): Promise<void> {
  await tx.query(
    `select from authorization_code
      where code_hash = (select max(code_hash::text)::bytea from authorization_code where code_hash = any ($1))
        for update`,
    [codes.map(hashSecret)],
  )
}

/** Lets the grants that newer ones have superseded be so for two days, and the sweep of them start again. */
export async function ageSupersededGrants(db: Queryable): Promise<void> {
  await db.query(`update superseded_grant set superseded_at = now() - interval '2 days'`)
  await db.query(`update sweep_position set reached_at = '-infinity' where name = 'superseded_grants'`)
}

/** Returns the pair that the sweep of superseded grants has come to; -1 after its end. */
export async function positionOfGrantSweep(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ position: number }>(
    `select pair_id::float8 as position from sweep_position where name = 'superseded_grants'`,
  )
  return rows[0]?.position ?? Number.NaN
}

/** Returns the plan of finding a live token, as a text. PostgreSQL reads a whole table only if it has no index. */
export async function planOfLiveToken(tx: pg.PoolClient, token: string): Promise<string> {
  await tx.query('set local enable_seqscan = off')
  const { rows } = await tx.query(
    'explain (format json) select account_id from live_token where token_hash = $1',
    [hashSecret(token)],
  )
  return JSON.stringify(rows)
}

/** Lists the repositories that each consent of an account allows, by their ids. */
export async function listGrantedIds(db: Queryable, account: Id): Promise<string[][]> {
  const { rows } = await db.query<{ ids: string[] }>(
    'select repository_ids as ids from authorization_grant where account_id = $1 order by id',
    [account.id],
  )
  return rows.map(({ ids }) => ids)
}

/** Lets the authorizations of an account have been used last at a time. */
export async function dateUse(db: Queryable, account: Id, lastUsedAt: Date): Promise<void> {
  await db.query('update account_authorization set last_used_at = $2 where account_id = $1', [
    account.id,
    lastUsedAt,
  ])
}

/** Counts the grants of an account of which it is known when they were used. */
export async function countUsedGrants(db: Queryable, account: Id): Promise<number> {
  const used = 'select from authorization_grant where account_id = $1 and last_used_at is not null'
  return (await db.query(used, [account.id])).rowCount ?? 0
}
