import type { Queryable } from '../database/database.ts'
import { hashSecret, makeOpaqueId } from '../domain/secrets.ts'

/** How long a sign-in page may stand open and still lead back. */
const lifetimeSeconds = 3600

/** A path of our own: neither `//host` nor `/\host`, and no byte that a browser would drop to make one. */
const ownPath = /^\/(?![/\\])[!-~]*$/

/** Keeps where a browser wants to go once it has signed in, and answers an id for it. A foreign place becomes `/`. */
export async function rememberReturn(db: Queryable, path: string): Promise<string> {
  const id = makeOpaqueId()
  const kept = ownPath.test(path) && path.length <= 16_384 ? path : '/'
  await db.query(
    `with over as (delete from sign_in_return where expires_at < now())
     insert into sign_in_return (id_hash, path, expires_at)
     values ($1, $2, now() + make_interval(secs => $3))`,
    [hashSecret(id), kept, lifetimeSeconds],
  )
  return id
}

/** The path kept under the id; null when there is none, or it was kept too long ago. */
export async function findReturn(db: Queryable, id: string): Promise<string | null> {
  const { rows } = await db.query<{ path: string }>(
    `select path from sign_in_return where id_hash = $1 and expires_at > now()`,
    [hashSecret(id)],
  )
  return rows[0]?.path ?? null
}
