import { type Queryable, surplusOf, sweepOf } from '../../database/database.ts'
import { hashSecret, makeOpaqueId, type SecretHash } from '../../domain/secrets.ts'

/** How long a form waits: as long as a confirmation counts, 15 minutes. */
const lifetimeSeconds = 900
/** A session holds at most this many forms. A new one replaces the oldest. */
const maxOfSession = 5
export const maxHeldBytes = 32_768
export const maxHeldUrlCharacters = 1024

/** A form that waits until the person of a session has confirmed who they are. */
export interface HeldForm {
  /** The path and query where it was sent to. */
  url: string
  /** The page of the form. */
  page: string
  /** Percent-encoded, without the token of the form. */
  fields: string
}

/** Stores a form for its session, and returns the id with which the same session sends it once. */
export async function holdForm(
  db: Queryable,
  sessionHash: SecretHash,
  { url, page, fields }: HeldForm,
): Promise<string> {
  const id = makeOpaqueId()
  await db.query(
    `with ${surplusOf('held_form', 'id_hash', 'session_hash = $2', maxOfSession - 1)}
     insert into held_form (id_hash, session_hash, url, page, fields, expires_at)
     values ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))`,
    [hashSecret(id), sessionHash, url, page, fields, lifetimeSeconds],
  )
  return id
}

/** Finds a form that waits for this session. Null when it was sent, or is too old, or belongs to another session. */
export async function findHeldForm(
  db: Queryable,
  sessionHash: SecretHash,
  id: string,
): Promise<HeldForm | null> {
  const { rows } = await db.query<HeldForm>(
    `select url, page, fields from held_form
      where id_hash = $1 and session_hash = $2 and expires_at > now()`,
    [hashSecret(id), sessionHash],
  )
  return rows[0] ?? null
}

/** Takes a form out, once, for the URL that it was sent to. Returns its fields; null like `findHeldForm`. */
export async function spendHeldForm(
  db: Queryable,
  sessionHash: SecretHash,
  id: string,
  url: string,
): Promise<string | null> {
  const { rows } = await db.query<{ fields: string }>(
    `delete from held_form
      where id_hash = $1 and session_hash = $2 and url = $3 and expires_at > now()
  returning fields`,
    [hashSecret(id), sessionHash, url],
  )
  return rows[0]?.fields ?? null
}

/** Deletes at most `limit` forms that nobody sent in time. Returns how many it deleted. */
export const deleteExpiredHeldForms = sweepOf('held_form', 'id_hash')
