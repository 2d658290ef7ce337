import type pg from 'pg'
import type { Config } from '../config.ts'
import { type Queryable, transaction } from '../database/database.ts'
import { type Expiry, expiryValues } from '../domain/expiry.ts'
import type { ListPart } from '../domain/paging.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { readRowId } from '../domain/row-id.ts'
import { hashSecret, makeSecret, type SecretHash } from '../domain/secrets.ts'
import { insertEvent, insertEvents } from '../events/events.ts'
import { requireBelowLimit } from '../groups/limits.ts'
import { requireLivePrincipal } from '../groups/live-principal.ts'

/** A personal access token to insert. Only the hash of the token is stored. */
export interface NewPersonalToken {
  accountId: string
  name: string
  tokenHash: SecretHash
  scopes: readonly string[]
  resourceScope: ResourceScope
  /** The repositories that it may access when its resource scope is `specified`. */
  repositoryIds: readonly string[]
  expiry: Expiry
  /** Whether it is an admin token: it carries the right of a site administrator. */
  isAdmin: boolean
}

/** Thrown when an admin token is wanted for an account that is no site administrator. */
export class NotAnAdministratorError extends Refusal {
  constructor() {
    super(errcode.failedPrecondition, 'only site administrators can have admin tokens', { status: 409 })
  }
}

/** A personal access token as its owner sees it. */
export interface PersonalToken {
  id: string
  name: string
  scopes: string[]
  resourceScope: ResourceScope
  /** Paths, such as `acme/php`. */
  repositories: string[]
  createdAt: Date
  lastUsedAt: Date | null
  /** Null when it does not expire. */
  expiresAt: Date | null
  isExpired: boolean
  isAdmin: boolean
}

/**
 * Creates a token, which is shown only once. Returns it with its expiration, null for never. Throws
 * EndedMeanwhileError when the session or token of the person has ended, errcode 8 when the account has too many tokens,
 * and the errors of `insertPersonalToken`.
 */
export async function createPersonalToken(
  db: pg.Pool,
  config: Pick<Config, 'limits' | 'site'>,
  by: Principal,
  wanted: Omit<NewPersonalToken, 'tokenHash'>,
): Promise<{ token: string; expiresAt: Date | null }> {
  const token = makeSecret('personal')
  const expiresAt = await transaction(
    db,
    async (tx) => {
      await requireLivePrincipal(tx, by)
      await requireBelowLimit(tx, config, by, 'tokens', wanted.accountId)
      return insertPersonalToken(tx, by, { ...wanted, tokenHash: hashSecret(token) })
    },
    by,
  )
  return { token, expiresAt }
}

/**
 * Adds a token, writes the event, and returns the expiration, null for never. Throws with the constraint
 * `personal_token_name_is_taken`, `personal_token_name_1_to_100_characters`, `personal_token_scopes_are_predefined` or
 * `admin_token_is_for_all_repositories`. Throws NotAnAdministratorError for an admin token of another account.
 */
export async function insertPersonalToken(
  db: Queryable,
  by: Principal,
  token: NewPersonalToken,
): Promise<Date | null> {
  const { accountId, name, tokenHash, scopes, resourceScope, repositoryIds, expiry, isAdmin } = token
  const { rows } = await db.query<{ expiresAt: Date | null }>(
    // The lock orders the token and a change of the role, which ends all admin tokens.
    `with administrator as materialized (
       select from account where $9 and id = $1 and is_admin for share
     ), token as (
       insert into personal_token (account_id, name, token_hash, scopes, resource_scope, expires_at, is_admin)
       select $1, $2, $3, $4, $5, coalesce($6::timestamptz, now() + make_interval(days => $7), 'infinity'), $9
        where not $9 or exists (select from administrator)
       returning id, expires_at
     ), chosen as (
       insert into personal_token_repository (personal_token_id, repository_id)
       select distinct token.id, repository_id from token, unnest($8::bigint[]) as repository_id
     )
     select nullif(expires_at, 'infinity') as "expiresAt" from token`,
    [accountId, name, tokenHash, scopes, resourceScope, ...expiryValues(expiry), repositoryIds, isAdmin],
  )
  if (!rows[0]) throw new NotAnAdministratorError()
  await insertEvent(db, by, {
    action: 'token-created',
    accountId,
    details: { name, scopes, resource_scope: resourceScope, ...(isAdmin && { admin: true }) },
  })
  return rows[0].expiresAt
}

const tokenColumns = `t.id, t.name, t.scopes, t.resource_scope as "resourceScope",
            array(select g.name || '/' || r.name
                    from personal_token_repository p
                    join repository r on r.id = p.repository_id
                    join repository_group g on g.id = r.group_id
                   where p.personal_token_id = t.id
                   order by 1 limit 100) as repositories,
            t.created_at as "createdAt", t.last_used_at as "lastUsedAt",
            nullif(t.expires_at, 'infinity') as "expiresAt", t.expires_at <= now() as "isExpired",
            t.is_admin as "isAdmin"`

/**
 * Lists the account's tokens that are not revoked, newest first. Expired ones are included. `after` is the id of one
 * of them. Each has at most 100 of its chosen repositories.
 */
export async function listPersonalTokens(
  db: Queryable,
  accountId: string,
  { after, limit }: ListPart = { after: null, limit: 1000 },
): Promise<PersonalToken[]> {
  const { rows } = await db.query<PersonalToken>(
    `select ${tokenColumns}
       from personal_token t
      where t.account_id = $1 and t.revoked_at is null and ($2::bigint is null or t.id < $2)
      order by t.id desc limit $3`,
    [accountId, after, limit],
  )
  return rows
}

/** Finds one of the account's tokens that is not revoked. Null when there is none. */
export async function findPersonalToken(
  db: Queryable,
  accountId: string,
  id: string,
): Promise<{ id: string; name: string } | null> {
  const { rows } = await db.query<{ id: string; name: string }>(
    'select id, name from personal_token where account_id = $1 and id = $2 and revoked_at is null',
    [accountId, id],
  )
  return rows[0] ?? null
}

/** Lists the account's tokens that expire within some days, or expired within as many days, earliest first. */
export async function listExpiringTokens(
  db: Queryable,
  accountId: string,
  days: number,
  limit: number,
): Promise<{ name: string; expiresAt: Date; isExpired: boolean }[]> {
  const { rows } = await db.query<{ name: string; expiresAt: Date; isExpired: boolean }>(
    `select name, expires_at as "expiresAt", expires_at <= now() as "isExpired"
       from personal_token
      where account_id = $1 and revoked_at is null
        and expires_at between now() - make_interval(days => $2) and now() + make_interval(days => $2)
      order by expires_at limit $3`,
    [accountId, days, limit],
  )
  return rows
}

/** Returns whether the account has a token that works. */
export async function hasLiveToken(db: Queryable, accountId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    'select from personal_token where account_id = $1 and revoked_at is null and expires_at > now() limit 1',
    [accountId],
  )
  return rowCount === 1
}

/** A token of an account that was used in the last hour. */
export interface UsedPersonalToken {
  name: string
  usedAt: Date
}

/** Finds the account's last used token that includes a repository. Null when none was used in the last hour. */
export async function findUsedToken(
  db: Queryable,
  accountId: string,
  repositoryId: string,
): Promise<UsedPersonalToken | null> {
  const { rows } = await db.query<UsedPersonalToken>(
    `select name, last_used_at as "usedAt"
       from personal_token t
      where account_id = $1 and revoked_at is null and last_used_at > now() - interval '1 hour'
        and (resource_scope <> 'specified'
             or exists (select from personal_token_repository
                         where personal_token_id = t.id and repository_id = $2))
      order by last_used_at desc limit 1`,
    [accountId, repositoryId],
  )
  return rows[0] ?? null
}

/** A token of an account, by its id or its name. */
export type WhichToken = { id: string } | { name: string }

/** Revokes a token of an account at once. Returns its name. Null when the account has no such token. */
export async function revokePersonalToken(
  db: pg.Pool,
  by: Principal,
  accountId: string,
  which: WhichToken,
): Promise<string | null> {
  return transaction(db, (tx) => revokeTokenWithin(tx, by, accountId, which))
}

/** Does what `revokePersonalToken` does, within a transaction. */
export async function revokeTokenWithin(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  which: WhichToken,
): Promise<string | null> {
  const [column, value] = 'id' in which ? ['id', which.id] : ['name', which.name]
  const { rows } = await tx.query<{ name: string }>(
    `update personal_token set revoked_at = now()
      where account_id = $1 and ${column} = $2 and revoked_at is null
  returning name`,
    [accountId, value],
  )
  await noteRevoked(tx, by, accountId, rows)
  return rows[0]?.name ?? null
}

/** Revokes the admin tokens of an account, and writes the events. */
export async function revokeAdminTokens(db: Queryable, by: Principal, accountId: string): Promise<void> {
  const { rows } = await db.query<{ name: string }>(
    `update personal_token set revoked_at = now() where account_id = $1 and is_admin and revoked_at is null
  returning name`,
    [accountId],
  )
  await noteRevoked(db, by, accountId, rows)
}

async function noteRevoked(
  db: Queryable,
  by: Principal,
  accountId: string,
  revoked: readonly { name: string }[],
): Promise<void> {
  const events = revoked.map(({ name }) => ({
    action: 'token-revoked' as const,
    accountId,
    details: { name },
  }))
  await insertEvents(db, by, events)
}

/**
 * Revokes all personal access tokens of an account and withdraws all its applications. Writes the events, and returns how
 * many. Authorizations are locked by id, as `redeem_codes` describes.
 */
export async function revokeAllOf(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
): Promise<{ tokens: number; applications: number }> {
  const { rows } = await tx.query<{ revoked: { name: string }[]; withdrawn: string[] }>(
    `with tokens as (
       update personal_token set revoked_at = now() where account_id = $1 and revoked_at is null returning id, name
     ), applications as (
       update account_authorization set ended_at = now()
        where id in (select id from account_authorization
                      where account_id = $1 and ended_at is null order by id for no key update)
       returning id, application_id
     )
     select (select coalesce(json_agg(json_build_object('name', name) order by id), '[]') from tokens) as revoked,
            array(select application_id from applications order by id) as withdrawn`,
    [accountId],
  )
  const [{ revoked, withdrawn }] = rows as [(typeof rows)[0]]
  await noteRevoked(tx, by, accountId, revoked)
  const events = withdrawn.map((applicationId) => ({
    action: 'authorization-withdrawn' as const,
    accountId,
    applicationId,
  }))
  await insertEvents(tx, by, events)
  return { tokens: revoked.length, applications: withdrawn.length }
}

/** Lists tokens of an account, or of all accounts, that are not revoked, oldest first; `after` is an id. */
export async function listTokensOf(
  db: Queryable,
  accountId: string | null,
  { after, limit }: ListPart,
): Promise<(PersonalToken & { username: string })[]> {
  const { rows } = await db.query<PersonalToken & { username: string }>(
    `select ${tokenColumns}, a.username
       from personal_token t join account a on a.id = t.account_id
      where ($1::bigint is null or t.account_id = $1) and t.id > $2 and t.revoked_at is null
      order by t.id limit $3`,
    [accountId, readRowId(after) ?? 0, limit],
  )
  return rows
}
