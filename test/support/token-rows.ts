import type { Queryable } from '../../src/database/database.ts'
import { hashSecret } from '../../src/domain/secrets.ts'

type Id = { id: string }

/** What a token that works gives. */
export interface LiveToken {
  accountId: string | null
  scopes: string[]
  resourceScope: string
  repositoryIds: string[]
}

/** Finds a token that works. */
export async function liveTokenOf(db: Queryable, token: string): Promise<LiveToken | undefined> {
  const { rows } = await db.query<LiveToken>(
    `select account_id as "accountId", scopes, resource_scope as "resourceScope", repository_ids as "repositoryIds"
       from live_token where token_hash = $1`,
    [hashSecret(token)],
  )
  return rows[0]
}

/** Returns those of the tokens that work. */
export async function worksOf(db: Queryable, ...tokens: string[]): Promise<string[]> {
  const works = await Promise.all(tokens.map((token) => liveTokenOf(db, token)))
  return tokens.filter((_token, i) => works[i])
}

/** What the database has about a deploy token. */
export interface StoredDeployToken {
  id: string
  groupId: string
  lastUsedAt: Date | null
}

/** Finds a deploy token. */
export async function storedDeployToken(
  db: Queryable,
  token: string,
): Promise<StoredDeployToken | undefined> {
  const { rows } = await db.query<StoredDeployToken>(
    'select id, group_id as "groupId", last_used_at as "lastUsedAt" from deploy_token where token_hash = $1',
    [hashSecret(token)],
  )
  return rows[0]
}

/** Lets the last use of a deploy token be an hour earlier. */
export async function ageUseOfDeployToken(db: Queryable, { id }: Id): Promise<void> {
  await db.query(`update deploy_token set last_used_at = last_used_at - interval '1 hour' where id = $1`, [
    id,
  ])
}

/** Lists the ids of the personal access tokens of an account. */
export async function listPersonalTokenIds(db: Queryable, { id }: Id): Promise<string[]> {
  const { rows } = await db.query<Id>('select id from personal_token where account_id = $1 order by id', [id])
  return rows.map((row) => row.id)
}

/** Lists the ids of the deploy tokens of a group. */
export async function listDeployTokenIds(db: Queryable, group: Id): Promise<string[]> {
  const { rows } = await db.query<Id>('select id from deploy_token where group_id = $1 order by id', [
    group.id,
  ])
  return rows.map(({ id }) => id)
}

/** Gives an account many personal access tokens, "token number 1" and so on, that never expire. */
export async function addPersonalTokens(db: Queryable, { id }: Id, count: number): Promise<void> {
  await db.query(
    `insert into personal_token (account_id, name, token_hash, scopes, resource_scope, expires_at)
     select $1::bigint, 'token number ' || i, sha256((i || ' of ' || $1::bigint)::bytea), '{registry-package:r}', 'all', 'infinity'
       from generate_series(1, $2::int) i`,
    [id, count],
  )
}

/** When a token was created and noted as expiring, and when it expires, in days from now. */
interface TimesOfToken {
  createdDaysAgo: number
  expiresInDays: number
  /** Missing if it was not noted. */
  notedDaysAgo?: number
}

/** Lets the personal access tokens and deploy tokens with this name have other times. */
export async function moveTokenInTime(
  db: Queryable,
  name: string,
  { createdDaysAgo, expiresInDays, notedDaysAgo }: TimesOfToken,
): Promise<void> {
  for (const table of ['personal_token', 'deploy_token'])
    await db.query(
      `update ${table}
          set created_at = now() - $2 * interval '1 day', expires_at = now() + $3 * interval '1 day',
              expiry_noted_at = now() - $4 * interval '1 day'
        where name = $1`,
      [name, createdDaysAgo, expiresInDays, notedDaysAgo ?? null],
    )
}

/** Revokes a personal access token, without an event. */
export async function markRevoked(db: Queryable, token: string): Promise<void> {
  await db.query('update personal_token set revoked_at = now() where token_hash = $1', [hashSecret(token)])
}

/** Lets all personal access tokens have been used now, without the event of a first use. */
export async function markTokensUsed(db: Queryable): Promise<void> {
  await db.query('update personal_token set last_used_at = now()')
}
