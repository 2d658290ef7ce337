import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Queryable } from '../database/database.ts'

/** The key that signs values which browsers keep for the server, and the time for those that expire. */
export interface SigningKey {
  key: Buffer
  /** The time of the database, in seconds since 1970. */
  nowSeconds: number
}

/** Returns the signing key of this database. All processes share it. */
export async function findSigningKey(db: Queryable): Promise<SigningKey> {
  const { rows } = await db.query<SigningKey>({
    name: 'find-signing-key',
    text: 'select key, extract(epoch from now())::float8 as "nowSeconds" from signing_key',
  })
  return rows[0] as SigningKey
}

/** Returns the signature of a content for a purpose: 32 bytes. A signature for one purpose is none for another. */
export function sign({ key }: SigningKey, purpose: string, content: string | Buffer): Buffer {
  return createHmac('sha256', key).update(`${purpose}\n`).update(content).digest()
}

/** Returns whether a signature is that of a content for a purpose. */
export function isSigned(
  key: SigningKey,
  purpose: string,
  content: string | Buffer,
  signature: Buffer,
): boolean {
  const right = sign(key, purpose, content)
  return signature.length === right.length && timingSafeEqual(signature, right)
}
