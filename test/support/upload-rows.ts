import type { Queryable } from '../../src/database/database.ts'

/** Discards uploads in a browser, as the person does: one, or those of an account. */
export async function discardUploads(
  db: Queryable,
  { id, accountId }: { id?: string; accountId?: string },
): Promise<void> {
  await db.query('update browser_upload set discarded_at = now() where id = $1 or account_id = $2', [
    id ?? null,
    accountId ?? null,
  ])
}

/** Lets the time of uploads in a browser pass: of those of an account, or to a repository. */
export async function expireUploads(
  db: Queryable,
  { accountId, repositoryId }: { accountId?: string; repositoryId?: string },
): Promise<void> {
  await db.query(
    `update browser_upload set expires_at = now() - interval '1 second' where account_id = $1 or repository_id = $2`,
    [accountId ?? null, repositoryId ?? null],
  )
}

/** Sets the size of each upload of an account, and when they expire: one minute after the other. */
export async function setUploads(
  db: Queryable,
  { id }: { id: string },
  size: number,
  firstExpires: Date,
): Promise<void> {
  await db.query(
    `update browser_upload u set size = $2, expires_at = $3::timestamptz + n * interval '1 minute'
       from (select id, row_number() over (order by created_at) as n from browser_upload where account_id = $1) o
      where u.id = o.id`,
    [id, size, firstExpires],
  )
}
