import type { Queryable } from '../database/database.ts'
import { surplusOf, sweepOf } from '../database/sweep.ts'
import { hashSecret, makeOpaqueId } from '../domain/secrets.ts'

/** How long a sign-in page may stay open and still return to the original page. */
const lifetimeSeconds = 3600
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
 * stored without its query. Null when there is no path to store. The sign-in then redirects to the home page.
 */
export async function rememberPage(db: Queryable, network: string, path: string): Promise<string | null> {
  const kept = path.length <= maxPathCharacters ? path : path.replace(/\?.*/s, '')
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
    `with ${surplusOf('sign_in_return', 'id_hash', '$3', maxReturnsPerNetwork - 1)}
     insert into sign_in_return (id_hash, path, network, expires_at)
     values ($1, $2, $3, now() + make_interval(secs => $4))`,
    [hashSecret(id), path, network, lifetimeSeconds],
  )
  return id
}

/** Deletes at most `limit` expired paths. Returns how many it deleted. */
export const deleteExpiredReturns = sweepOf('sign_in_return', 'id_hash')
