import type pg from 'pg'
import { type Queryable, sweepOf } from '../database/database.ts'
import type { Role } from '../domain/permissions.ts'
import type { PublisherRight, PublisherRun } from '../domain/publisher.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { ClaimDifference } from './providers.ts'

/** The lifetime of a token. */
export const publisherTokenSeconds = 900

/** The result of the last exchange of a trusted publisher. */
export interface LastExchange {
  /** RFC 3339. */
  at: string
  outcome: 'issued' | 'refused'
  /** The claims that were not as expected. Empty when a token was issued. */
  differs: ClaimDifference[]
  run: PublisherRun
}

/** A trusted publisher that gives a token, with the ids of the project in the identity token. */
export interface PinnedPublisher {
  id: string
  pins: Record<string, string>
}

/**
 * Pins the ids of the project at the publishers that have none yet. Returns the ids of the publishers whose pinned ids are the
 * given ones, in their order. It locks their rows, so of two first exchanges only one pins, and that of the repository, so that a
 * deletion of it waits.
 */
export async function pinPublishers(
  tx: pg.PoolClient,
  publishers: readonly PinnedPublisher[],
): Promise<{ id: string; isFirst: boolean }[]> {
  const { rows } = await tx.query<{ id: string; isFirst: boolean }>({
    name: 'pin-publishers',
    text: `with given as (
             select p.id, g.pins, p.last_exchange ->> 'outcome' is distinct from 'issued' and p.pins = '{}' as is_first
               from jsonb_to_recordset($1) as g (id bigint, pins jsonb)
               join trusted_publisher p on p.id = g.id
               join repository r on r.id = p.repository_id and r.group_id is not null
              where p.id = any($2) and p.removed_at is null and p.pins <@ g.pins
              order by p.id for no key update of p for key share of r
           )
           update trusted_publisher p set pins = given.pins
             from given where p.id = given.id
           returning p.id, given.is_first as "isFirst"`,
    // PostgreSQL takes the JSON for a hundred rows: without the ids it would read all trusted publishers.
    values: [JSON.stringify(publishers), publishers.map(({ id }) => id)],
  })
  return rows.toSorted((a, b) => Number(BigInt(a.id) - BigInt(b.id)))
}

/** A token to store. */
export interface NewPublisherToken {
  tokenHash: SecretHash
  repositoryId: string
  /** The publisher that events and versions name. */
  publisherId: string
  publisherIds: readonly string[]
  rights: readonly PublisherRight[]
  role: Role
  scopes: readonly string[]
  run: PublisherRun
  /** The key of the identity token, and until when its use is remembered. */
  replay: { key: Buffer; until: Date }
}

/**
 * Stores a token, the use of the identity token, and the result of the exchange. Returns false when the identity token was
 * used before: of concurrent exchanges of one token, only one stores anything.
 */
export async function insertPublisherToken(tx: pg.PoolClient, fresh: NewPublisherToken): Promise<boolean> {
  const { publisherIds, run, replay } = fresh
  const exchange: Omit<LastExchange, 'at'> = { outcome: 'issued', differs: [], run }
  const { rowCount } = await tx.query({
    name: 'insert-publisher-token',
    text: `with used as (
             insert into used_identity_token (key_hash, expires_at) values ($1, $2)
             on conflict (key_hash) do nothing returning key_hash
           ), noted as (
             update trusted_publisher
                set last_exchange = $3::jsonb || jsonb_build_object('at', now())
              where id = any($4) and exists (select from used)
           )
           insert into publisher_token
             (token_hash, repository_id, publisher_id, publisher_ids, rights, role, scopes, run, expires_at)
           select $5, $6, $7, $4, $8, $9, $10, $11, now() + make_interval(secs => $12)
            where exists (select from used)`,
    values: [
      replay.key,
      replay.until,
      JSON.stringify(exchange),
      publisherIds,
      fresh.tokenHash,
      fresh.repositoryId,
      fresh.publisherId,
      JSON.stringify(fresh.rights),
      fresh.role,
      fresh.scopes,
      JSON.stringify(run),
      publisherTokenSeconds,
    ],
  })
  return rowCount === 1
}

/** Ends a token, because its holder asks for it. Returns false when there is none. */
export async function revokePublisherToken(db: Queryable, tokenHash: SecretHash): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'revoke-publisher-token',
    text: 'delete from publisher_token where token_hash = $1',
    values: [tokenHash],
  })
  return rowCount === 1
}

/** Ends the tokens for which a publisher of a repository has matched. */
export async function endPublisherTokens(tx: pg.PoolClient, repositoryId: string, id: string): Promise<void> {
  await tx.query('delete from publisher_token where repository_id = $1 and $2 = any(publisher_ids)', [
    repositoryId,
    id,
  ])
}

export const deleteExpiredPublisherTokens = sweepOf('publisher_token', 'id')
export const deleteExpiredIdentityTokens = sweepOf('used_identity_token', 'key_hash')
