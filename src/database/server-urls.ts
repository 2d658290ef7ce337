import type { Queryable } from './database.ts'

/** The public URLs of the server, without a slash at the end. */
export interface ServerUrls {
  baseUrl: string
  authUrl: string
}

/** Stores the URLs of a starting server, so that commands can print them (DESIGN §3). */
export async function noteServerUrls(db: Queryable, { baseUrl, authUrl }: ServerUrls): Promise<void> {
  await db.query(
    `insert into server_urls (base_url, auth_url) values ($1, $2)
     on conflict (is_only) do update set base_url = excluded.base_url, auth_url = excluded.auth_url`,
    [baseUrl, authUrl],
  )
}

/** Returns the URLs of the server that started last. Null when none has started yet. */
export async function findServerUrls(db: Queryable): Promise<ServerUrls | null> {
  const { rows } = await db.query<ServerUrls>(
    `select base_url as "baseUrl", auth_url as "authUrl" from server_urls`,
  )
  return rows[0] ?? null
}
