import type pg from 'pg'
import type { AppContext } from '../context.ts'
import { accountName } from '../database/account-name.ts'
import { type Queryable, transaction } from '../database/database.ts'
import { type Expiry, expiryValues } from '../domain/expiry.ts'
import type { ListPart } from '../domain/paging.ts'
import { type DeployRight, deployRights } from '../domain/permissions.ts'
import { background, type Principal } from '../domain/principal.ts'
import { readRowId } from '../domain/row-id.ts'
import { hashSecret, makeSecret, type SecretHash } from '../domain/secrets.ts'
import { insertEvent, insertEvents } from '../events/events.ts'
import { expiryDetails, isExpiryDue } from '../events/token-expiry.ts'
import { requireBelowLimit } from './limits.ts'
import { requireLivePrincipal } from './live-principal.ts'

/** A deploy token to create. */
export interface NewDeployToken {
  groupId: string
  name: string
  right: DeployRight
  /** Ids of repositories of the group; `all` includes later ones. */
  repositories: readonly { id: string; path: string }[] | 'all'
  expiry: Expiry
}

/** A deploy token as the admins of its group see it. */
export interface DeployToken {
  id: string
  /** The name of its group. */
  group: string
  name: string
  right: DeployRight
  isForAll: boolean
  /** Paths of the chosen repositories, at most 100. Empty when it is for all. */
  repositories: string[]
  /** The account that created it. Null for the command line, `deleted account` after that account was deleted. */
  madeBy: string | null
  createdAt: Date
  lastUsedAt: Date | null
  /** Null when it does not expire. */
  expiresAt: Date | null
  isExpired: boolean
}

/** A group, or one of its repositories. The page of a repository lists only tokens that may access it. */
export interface DeployTokenPlace {
  groupId: string
  repositoryId: string | null
}

/**
 * Creates a deploy token and writes the events. Returns the plain token, its id, and its expiration, null for never.
 * Throws with the constraint `deploy_token_name_is_taken`, `deploy_token_name_1_to_100_characters` or
 * `deploy_token_name_is_plain_text`, and errcode 8 when the group has too many.
 */
export async function createDeployToken(
  { config, db }: AppContext,
  by: Principal,
  wanted: NewDeployToken,
): Promise<{ id: string; token: string; expiresAt: Date | null }> {
  const token = makeSecret('deploy')
  const { groupId, name, right, repositories } = wanted
  const made = await transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    await requireBelowLimit(tx, config, by, 'deployTokens', groupId)
    const inserted = await insertDeployToken(tx, wanted, hashSecret(token), by.accountId)
    // One act has two events: this one for the list of the account that acts, the other for the group (see `repeatedActions`).
    await insertTokenEvents(tx, by, 'deploy-token-created', [inserted.id])
    await insertEvent(tx, by, {
      groupId,
      action: 'create-deploy-token',
      details: {
        name,
        right,
        repositories: repositories === 'all' ? 'all' : repositories.map(({ path }) => path).slice(0, 100),
      },
    })
    return inserted
  })
  return { ...made, token }
}

/**
 * Revokes a deploy token of the place at once, by its id or name, and writes the events. With a repository, it revokes
 * only a token for this repository alone. Returns its name, or null when there is no such token.
 */
export async function revokeDeployToken(
  db: pg.Pool,
  by: Principal,
  place: DeployTokenPlace,
  which: { id: string } | { name: string },
): Promise<string | null> {
  return transaction(db, async (tx) => {
    const revoked = await endDeployToken(tx, place, which)
    if (revoked === null) return null
    const { id, name } = revoked
    await insertTokenEvents(tx, by, 'deploy-token-revoked', [id])
    const event = {
      groupId: place.groupId,
      action: 'revoke-deploy-token',
      details: { name },
    } as const
    await insertEvent(tx, by, event)
    return name
  })
}

/** Revokes all deploy tokens that an account made, and writes the events. Returns how many. */
export async function revokeDeployTokensOf(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
): Promise<number> {
  const { rows } = await tx.query<{ id: string; groupId: string; name: string }>(
    `update deploy_token set revoked_at = now()
      where id in (select id from deploy_token where made_by = $1 and revoked_at is null order by id for update)
  returning id, group_id as "groupId", name`,
    [accountId],
  )
  const ids = rows.map(({ id }) => id)
  await insertTokenEvents(tx, by, 'deploy-token-revoked', ids)
  const events = rows.map(({ groupId, name }) => ({
    groupId,
    action: 'revoke-deploy-token' as const,
    details: { name },
  }))
  await insertEvents(tx, by, events)
  return events.length
}

/** Writes events about at most `limit` deploy tokens that expire soon. Returns how many. */
export async function noteExpiringDeployTokens(tx: pg.PoolClient, limit: number): Promise<number> {
  const { rows } = await tx.query<{ id: string; groupId: string; name: string; expiresAt: Date }>(
    `update deploy_token t set expiry_noted_at = now()
      where id in (select id from deploy_token t where ${isExpiryDue} limit $1 for update skip locked)
  returning t.id, t.group_id as "groupId", t.name, t.expires_at as "expiresAt"`,
    [limit],
  )
  const events = rows.map(({ id, groupId, ...token }) => ({
    groupId,
    action: 'deploy-token-expiring' as const,
    details: { ...expiryDetails(token), deploy_token: Number(id) },
  }))
  await insertEvents(tx, background, events)
  return events.length
}

/** Inserts identity events about deploy tokens. They have no account, because a group owns the tokens. */
async function insertTokenEvents(
  tx: pg.PoolClient,
  by: Principal,
  action: 'deploy-token-created' | 'deploy-token-revoked',
  ids: readonly string[],
): Promise<void> {
  const { rows } = await tx.query<{ details: Record<string, unknown> }>(
    `select jsonb_build_object('name', d.name, 'deploy_token', d.id, 'group', g.name)
            || case when $2 then jsonb_build_object('scopes', d.scopes, 'resource_scope', d.resource_scope) else '{}' end
              as details
       from deploy_token d join repository_group g on g.id = d.group_id
      where d.id = any ($1) order by d.id`,
    [ids, action === 'deploy-token-created'],
  )
  const events = rows.map(({ details }) => ({ action, details }))
  await insertEvents(tx, by, events)
}

async function insertDeployToken(
  tx: pg.PoolClient,
  { groupId, name, right, repositories, expiry }: NewDeployToken,
  tokenHash: SecretHash,
  madeBy: string | null,
): Promise<{ id: string; expiresAt: Date | null }> {
  const { role, scopes } = deployRights[right]
  const { rows } = await tx.query<{ id: string; expiresAt: Date | null }>(
    `with token as (
       insert into deploy_token (group_id, name, token_hash, role, scopes, resource_scope, made_by, expires_at)
       values ($1, $2, $3, $4, $5, case when $6::bigint[] is null then 'all'::resource_scope else 'specified' end, $7,
               coalesce($8::timestamptz, now() + make_interval(days => $9), 'infinity'))
       returning id, expires_at
     ), reach as (
       insert into deploy_token_repository (deploy_token_id, repository_id)
       select token.id, r.id from token, repository r where r.id = any($6) and r.group_id = $1
     )
     select id, nullif(expires_at, 'infinity') as "expiresAt" from token`,
    [
      groupId,
      name,
      tokenHash,
      role,
      scopes,
      repositories === 'all' ? null : repositories.map(({ id }) => id),
      madeBy,
      ...expiryValues(expiry),
    ],
  )
  return rows[0] as { id: string; expiresAt: Date | null }
}

const columns = `d.id, g.name as "group", d.name, case when d.role = 'guest' then 'read' when 'registry-package:rw' = any(d.scopes) then 'publish' else 'report' end
              as "right",
            d.resource_scope = 'all' as "isForAll",
            array(select g.name || '/' || r.name
                    from deploy_token_repository p join repository r on r.id = p.repository_id
                   where p.deploy_token_id = d.id and r.group_id is not null
                   order by 1 limit 100) as repositories,
            ${accountName('d.made_by', 'a.username')} as "madeBy",
            d.created_at as "createdAt", d.last_used_at as "lastUsedAt",
            nullif(d.expires_at, 'infinity') as "expiresAt", d.expires_at <= now() as "isExpired"`

/**
 * Lists the deploy tokens of a place, or of all groups, that are not revoked, newest first. Expired ones are
 * included. `after` is the id of one of them.
 */
export async function listDeployTokens(
  db: Queryable,
  place: DeployTokenPlace | null,
  { after, limit }: ListPart,
): Promise<DeployToken[]> {
  const { rows } = await db.query<DeployToken>(
    `select ${columns}
       from deploy_token d join repository_group g on g.id = d.group_id left join account a on a.id = d.made_by
      where d.revoked_at is null and ($3::bigint is null or d.id < $3)
        and ($1::bigint is null or d.group_id = $1)
        and ($2::bigint is null or d.resource_scope = 'all'
             or exists (select from deploy_token_repository where deploy_token_id = d.id and repository_id = $2))
      order by d.id desc limit $4`,
    [place?.groupId ?? null, place?.repositoryId ?? null, readRowId(after), limit],
  )
  return rows
}

/**
 * Lists the deploy tokens of the groups that the account administers, which expire within some days, or expired within
 * as many days, earliest first.
 */
export async function listExpiringDeployTokens(
  db: Queryable,
  accountId: string,
  days: number,
  limit: number,
): Promise<{ group: string; name: string; expiresAt: Date; isExpired: boolean }[]> {
  const { rows } = await db.query<{ group: string; name: string; expiresAt: Date; isExpired: boolean }>(
    `select g.name as "group", d.name, d.expires_at as "expiresAt", d.expires_at <= now() as "isExpired"
       from counted_group_member m
       join repository_group g on g.id = m.group_id
       join deploy_token d on d.group_id = g.id
      where m.account_id = $1 and m.role = 'admin' and d.revoked_at is null
        and d.expires_at between now() - make_interval(days => $2) and now() + make_interval(days => $2)
      order by d.expires_at limit $3`,
    [accountId, days, limit],
  )
  return rows
}

/**
 * SQL that tells whether the deploy token `d` can be revoked at a place. Other tokens than those for the repository
 * alone are used elsewhere too.
 */
const isManagedAt = (repositoryId: `$${number}`) => `(${repositoryId}::bigint is null
             or (d.resource_scope = 'specified'
                 and array(select repository_id from deploy_token_repository where deploy_token_id = d.id)
                     = array[${repositoryId}::bigint]))`

/**
 * Finds a deploy token of a place that is not revoked. With a repository, it finds only a token for this repository
 * alone. Null when there is none.
 */
export async function findDeployToken(
  db: Queryable,
  { groupId, repositoryId }: DeployTokenPlace,
  id: string,
): Promise<DeployToken | null> {
  const { rows } = await db.query<DeployToken>(
    `select ${columns}
       from deploy_token d join repository_group g on g.id = d.group_id left join account a on a.id = d.made_by
      where d.group_id = $1 and d.id = $3 and d.revoked_at is null and ${isManagedAt('$2')}`,
    [groupId, repositoryId, id],
  )
  return rows[0] ?? null
}

async function endDeployToken(
  tx: pg.PoolClient,
  { groupId, repositoryId }: DeployTokenPlace,
  which: { id: string } | { name: string },
): Promise<{ id: string; name: string } | null> {
  const { rows } = await tx.query<{ id: string; name: string }>(
    `update deploy_token d set revoked_at = now()
      where group_id = $1 and revoked_at is null and ($3::bigint is null or id = $3) and ($4::text is null or name = $4)
        and ${isManagedAt('$2')}
  returning id, name`,
    [groupId, repositoryId, 'id' in which ? which.id : null, 'name' in which ? which.name : null],
  )
  return rows[0] ?? null
}
