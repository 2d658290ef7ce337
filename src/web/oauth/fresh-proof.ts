import { findProofTime, type Session } from '../../accounts/sessions.ts'
import { findSigningKey, isSigned, sign } from '../../accounts/signatures.ts'
import type { Queryable } from '../../database/database.ts'

/** The mark at the end of a link: when its request arrived first, in milliseconds since 1970, and a signature. */
const mark = /&svc_asked=(\d{1,16})\.([\w-]{43})$/
const purpose = 'authorization request arrived'
/** After this time the person is asked again, as for a new request. */
const markedSeconds = 3600

/** Returns the link without its mark. */
export function withoutMark(link: string): string {
  return link.replace(mark, '')
}

/**
 * Marks a link with the time of its request, so that a proof of identity after it is enough when the browser comes back
 * (OPENID 247). Nobody else can make the mark, and it is for this link only.
 */
export async function markLink(db: Queryable, link: string): Promise<string> {
  if ((await findMark(db, link)) !== null) return link
  const key = await findSigningKey(db)
  const [bare, milliseconds] = [withoutMark(link), Math.floor(key.nowSeconds * 1000)]
  const signature = sign(key, purpose, `${milliseconds}\n${bare}`).toString('base64url')
  return `${bare}&svc_asked=${milliseconds}.${signature}`
}

/** Returns whether the last proof of identity of a session is at most this much older than the request of a link. */
export async function hasFreshProof(
  db: Queryable,
  { idHash }: Session,
  link: string,
  maxAgeSeconds: number,
): Promise<boolean> {
  const provedAt = await findProofTime(db, idHash)
  if (provedAt === null) return false
  const askedAt = (await findMark(db, link)) ?? (await findSigningKey(db)).nowSeconds
  return provedAt >= askedAt - maxAgeSeconds
}

/** Returns the time of a link's mark, in seconds since 1970. Null without a mark that is right and not too old. */
async function findMark(db: Queryable, link: string): Promise<number | null> {
  const [, milliseconds, signature] = mark.exec(link) ?? []
  if (milliseconds === undefined || signature === undefined) return null
  const key = await findSigningKey(db)
  const content = `${milliseconds}\n${withoutMark(link)}`
  if (!isSigned(key, purpose, content, Buffer.from(signature, 'base64url'))) return null
  const seconds = Number(milliseconds) / 1000
  return seconds > key.nowSeconds - markedSeconds ? seconds : null
}
