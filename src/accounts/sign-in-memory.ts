import type { FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'
import { type Queryable, surplusOf, sweepOf } from '../database/database.ts'
import { hashSecret, makeOpaqueId, type SecretHash } from '../domain/secrets.ts'
import { networkOf } from '../http/client-ip.ts'
import { readCookie } from '../http/cookies.ts'

/** How long a browser or a network counts as known after its last sign-in. */
export const originLifetimeSeconds = 180 * 86_400
/** The maximum number of origins of an account. The most recent ones are kept. */
const maxOrigins = 50

/** The origin of a sign-in: browser and network. */
export interface SignInOrigin {
  network: string
  networkHash: SecretHash
  /** SHA-256 of the browser's device cookie; null when it has none. */
  deviceHash: SecretHash | null
}

/** Returns the origin of a request. */
export function signInOriginOf(request: FastifyRequest, config: Config): SignInOrigin {
  const network = networkOf(request.ip)
  const device = readCookie(request, config, 'device')
  return {
    network,
    networkHash: hashSecret(`network ${network}`),
    deviceHash: device === null ? null : hashSecret(device),
  }
}

/** Returns whether the account has signed in from this browser, and from this network. */
export async function findKnownOrigin(
  db: Queryable,
  accountId: string,
  { networkHash, deviceHash }: SignInOrigin,
): Promise<{ isKnownNetwork: boolean; isKnownDevice: boolean }> {
  const { rows } = await db.query<{ isKnownNetwork: boolean; isKnownDevice: boolean }>({
    name: 'find-known-origin',
    text: `select coalesce(bool_or(origin_hash = $2), false) as "isKnownNetwork",
                  coalesce(bool_or(origin_hash = $3), false) as "isKnownDevice"
             from sign_in_origin
            where account_id = $1 and origin_hash in ($2, $3)
              and last_used_at > now() - make_interval(secs => $4)`,
    values: [accountId, networkHash, deviceHash, originLifetimeSeconds],
  })
  return rows[0] ?? { isKnownNetwork: false, isKnownDevice: false }
}

/** Stores the browser and the network of a sign-in. Deletes the account's oldest ones. */
export async function rememberOrigin(
  db: Queryable,
  accountId: string,
  hashes: readonly [networkHash: SecretHash, deviceHash: SecretHash],
): Promise<void> {
  await db.query(
    `with forgotten as (
       delete from sign_in_origin
        where account_id = $1 and origin_hash in (
          select origin_hash from sign_in_origin
           where account_id = $1 and origin_hash <> all($2)
           order by last_used_at desc offset $3
             for update skip locked)
     )
     insert into sign_in_origin (account_id, origin_hash)
     select $1, origin_hash from unnest($2::bytea[]) as origin_hash order by origin_hash
         on conflict (account_id, origin_hash) do update set last_used_at = now()`,
    [accountId, hashes, maxOrigins - hashes.length],
  )
}

/** Deletes all known browsers and networks of the account, for example after a change of the password. */
export async function forgetOrigins(db: Queryable, accountId: string): Promise<void> {
  await db.query('delete from sign_in_origin where account_id = $1', [accountId])
}

/** How long a sign-in page may stay open and still return to the original page. */
const returnLifetimeSeconds = 3600
/** How many pages are stored for one network, because anyone can create them. The oldest ones are deleted first. */
const maxReturnsPerNetwork = 100
const maxPathCharacters = 1024
/** The maximum length of a link to the authorization endpoint (OAUTH 50). */
const maxLinkCharacters = 8192

/**
 * A path on this server. It excludes `//host`, `/\host`, and characters that browsers remove, which could lead to
 * these.
 */
const ownPath = /^\/(?![/\\])[!-~]*$/

/**
 * Stores the path of a page until its visitor has signed in, and returns an id for it. A path that is too long is
 * stored without its query, and so is the link of an invitation: its token is a secret, and the browser keeps it in a
 * cookie. Null when there is no path to store. The sign-in then redirects to the home page.
 */
export async function rememberPage(db: Queryable, network: string, path: string): Promise<string | null> {
  const isStorable = path.length <= maxPathCharacters && !/[?&]token=/.test(path)
  const kept = isStorable ? path : path.replace(/\?.*/s, '')
  return kept.length <= maxPathCharacters ? insertReturn(db, network, kept) : null
}

/** Like `rememberPage`, for a longer link to the authorization endpoint, whose client and redirect URI are checked. */
export async function rememberAuthorizationLink(
  db: Queryable,
  network: string,
  link: string,
): Promise<string | null> {
  return link.length <= maxLinkCharacters ? insertReturn(db, network, link) : null
}

/** Returns the stored path of an id. Null when the id is unknown or expired. */
export async function findReturn(db: Queryable, id: string): Promise<string | null> {
  const { rows } = await db.query<{ path: string }>(
    `select path from sign_in_return where id_hash = $1 and expires_at > now()`,
    [hashSecret(id)],
  )
  return rows[0]?.path ?? null
}

async function insertReturn(db: Queryable, network: string, path: string): Promise<string | null> {
  if (path === '/' || !ownPath.test(path)) return null
  const id = makeOpaqueId()
  await db.query(
    `with ${surplusOf('sign_in_return', 'id_hash', 'network = $3', maxReturnsPerNetwork - 1)}
     insert into sign_in_return (id_hash, path, network, expires_at)
     values ($1, $2, $3, now() + make_interval(secs => $4))`,
    [hashSecret(id), path, network, returnLifetimeSeconds],
  )
  return id
}

/** Deletes at most `limit` expired paths. Returns how many it deleted. */
export const deleteExpiredReturns = sweepOf('sign_in_return', 'id_hash')
