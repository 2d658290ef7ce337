import type pg from 'pg'
import { type Queryable, sweepOf } from '../../database/database.ts'

/** An archive that was uploaded in the browser and is not published yet. */
export interface BrowserUpload {
  id: string
  /** The name of the file on the person's computer. */
  fileName: string
  /** Lower-case hex. */
  sha256: string
  size: number
  createdAt: Date
  expiresAt: Date
}

const columns = `id, file_name as "fileName", encode(sha256, 'hex') as sha256, size::float8 as size,
  created_at as "createdAt", expires_at as "expiresAt"`

/** The maximum number of unpublished uploads of one account. */
export const maxUploads = 5

/** A limit of uploads that is reached, and when the next uploads expire. */
export interface FullUploads {
  /** `number` of unpublished uploads, or `bytes` of all of them, discarded ones included. */
  limit: 'number' | 'bytes'
  freeAt: Date
}

/**
 * Finds the limit that keeps an account from uploading another `bytes` bytes. Null when there is room: fewer than
 * `maxUploads` unpublished uploads, and at most `maxBytes` in all uploads of the last 12 hours, discarded ones included.
 * Call `lockUploads` before, if the result must hold until the end of a transaction.
 */
export async function findFullUploads(
  db: Queryable,
  accountId: string,
  { bytes, maxBytes }: { bytes: number; maxBytes: number },
): Promise<FullUploads | null> {
  const { rows } = await db.query<FullUploads>(
    `with kept as (
       select expires_at, discarded_at, sum(size) over () - sum(size) over (order by expires_at) as rest,
              sum(size) over () as total
         from browser_upload where account_id = $1 and expires_at > now()
     )
     select 'bytes' as limit, min(expires_at) filter (where rest + $2 <= $3) as "freeAt"
       from kept having max(total) + $2 > $3
      union all
     select 'number', min(expires_at) from kept where discarded_at is null having count(*) >= ${maxUploads}
      order by 1 limit 1`,
    [accountId, bytes, maxBytes],
  )
  return rows[0] ?? null
}

/**
 * Makes other uploads of the account wait until the transaction ends, so that they cannot exceed the limits together.
 */
export async function lockUploads(tx: pg.PoolClient, accountId: string): Promise<void> {
  await tx.query('select from account where id = $1 for no key update', [accountId])
}

/** Stores an upload, and returns its id. */
export async function insertUpload(
  db: Queryable,
  upload: { accountId: string; repositoryId: string; fileName: string; sha256: string; size: number },
): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `insert into browser_upload (account_id, repository_id, file_name, sha256, size)
     values ($1, $2, $3, decode($4, 'hex'), $5) returning id`,
    [upload.accountId, upload.repositoryId, upload.fileName, upload.sha256, upload.size],
  )
  return (rows[0] as { id: string }).id
}

/** The owner of uploads. For an owner, uploads of others do not exist. */
export interface UploadOwner {
  accountId: string
  repositoryId: string
}

/** Finds an upload. Null when it is published, discarded or expired, or belongs to another account or repository. */
export async function findUpload(
  db: Queryable,
  { accountId, repositoryId }: UploadOwner,
  id: string,
): Promise<BrowserUpload | null> {
  if (!/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) return null
  const { rows } = await db.query<BrowserUpload>(
    `select ${columns} from browser_upload
      where id = $3 and account_id = $1 and repository_id = $2 and discarded_at is null and expires_at > now()`,
    [accountId, repositoryId, id],
  )
  return rows[0] ?? null
}

/** Lists an owner's unpublished uploads, the latest first. */
export async function listUploads(
  db: Queryable,
  { accountId, repositoryId }: UploadOwner,
): Promise<BrowserUpload[]> {
  const { rows } = await db.query<BrowserUpload>(
    `select ${columns} from browser_upload
      where account_id = $1 and repository_id = $2 and discarded_at is null and expires_at > now()
      order by created_at desc limit 20`,
    [accountId, repositoryId],
  )
  return rows
}

/** Discards an upload. */
export async function discardUpload(db: Queryable, id: string): Promise<void> {
  await db.query('update browser_upload set discarded_at = now() where id = $1', [id])
}

/** Removes an upload after it was published. */
export async function deleteUpload(db: Queryable, id: string): Promise<void> {
  await db.query('delete from browser_upload where id = $1', [id])
}

/** Deletes expired uploads, and returns how many. A garbage collection removes their files. */
export const deleteExpiredUploads = sweepOf('browser_upload', 'id')
