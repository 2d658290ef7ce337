import { findSigningKey, isSigned, sign } from '../accounts/signatures.ts'
import type { Queryable } from '../database/database.ts'
import { readRowId } from '../domain/row-id.ts'
import { type Topic, topicNames } from './topics.ts'

/** What a link ends: the mails about a topic, or those of all topics in the digest. */
export type Subscription = Topic | 'digest'

const purpose = 'unsubscribe'

/**
 * Returns the token of a link that ends a subscription without a sign-in. It does nothing else, so it has no end: it works
 * after a change of the password, too.
 */
export async function signUnsubscription(
  db: Queryable,
  accountId: string,
  what: Subscription,
): Promise<string> {
  const content = `${accountId}.${what}`
  return `${content}.${sign(await findSigningKey(db), purpose, content).toString('base64url')}`
}

/** Returns what a token ends. Null for any other text. */
export async function findUnsubscription(
  db: Queryable,
  token: string,
): Promise<{ accountId: string; what: Subscription } | null> {
  const [, content = '', id = '', named = '', signature = ''] =
    /^((\d{1,19})\.([a-z]+))\.([\w-]{43})$/.exec(token) ?? []
  const what = ([...topicNames, 'digest'] as const).find((one) => one === named)
  const accountId = readRowId(id)
  if (what === undefined || accountId === null) return null
  const isOurs = isSigned(await findSigningKey(db), purpose, content, Buffer.from(signature, 'base64url'))
  return isOurs ? { accountId, what } : null
}
