import { randomBytes } from 'node:crypto'
import { type Queryable, sweepOf } from '../../database/database.ts'
import { hashSecret } from '../../domain/secrets.ts'
import { findSigningKey, isSigned, sign } from '../signatures.ts'

/** How long a person may take to unlock a passkey. */
const lifetimeSeconds = 300

const randomSize = 16
const signatureSize = 32

/** The purpose of a challenge, and its owner. */
export interface ChallengeOwner {
  /** The cookie of the browser that must present it. */
  browser: string
  /** Null in a sign-in without a password, where the account is not known yet. */
  accountId: string | null
  purpose: 'register' | 'second-step' | 'sign-in' | 'confirm'
}

/** The owner of the challenge of a sign-in without a password. `browser` is its cookie. */
export const signInChallenge = (browser: string): ChallengeOwner => ({
  browser,
  accountId: null,
  purpose: 'sign-in',
})

/**
 * Returns a new challenge, which its owner can use once. It is signed and not stored, so a request for a challenge costs
 * the server nothing, and nobody can remove the challenge of somebody else.
 */
export async function makeChallenge(
  db: Queryable,
  owner: ChallengeOwner,
  seconds = lifetimeSeconds,
): Promise<Buffer<ArrayBuffer>> {
  const key = await findSigningKey(db)
  const expiry = Buffer.alloc(8)
  expiry.writeDoubleBE(key.nowSeconds + seconds)
  const content = Buffer.concat([randomBytes(randomSize), expiry])
  return Buffer.concat([content, sign(key, purposeOf(owner), content)])
}

/** Uses up a challenge, in base64url. False when it is used, expired, forged, or belongs to another owner. */
export async function spendChallenge(
  db: Queryable,
  challenge: string,
  owner: ChallengeOwner,
): Promise<boolean> {
  const bytes = Buffer.from(challenge, 'base64url')
  const [content, signature] = [bytes.subarray(0, -signatureSize), bytes.subarray(-signatureSize)]
  if (content.length !== randomSize + 8) return false
  if (!isSigned(await findSigningKey(db), purposeOf(owner), content, signature)) return false
  const { rowCount } = await db.query(
    `insert into spent_challenge (challenge_hash, expires_at)
     select $1, to_timestamp($2) where to_timestamp($2) > now()
         on conflict do nothing`,
    [hashSecret(bytes.toString('base64url')), content.readDoubleBE(randomSize)],
  )
  return rowCount === 1
}

function purposeOf({ browser, accountId, purpose }: ChallengeOwner): string {
  return `passkey challenge: ${JSON.stringify([purpose, accountId, browser])}`
}

/** Deletes at most `limit` used challenges that have expired. Returns how many it deleted. */
export const deleteExpiredChallenges = sweepOf('spent_challenge', 'challenge_hash')
