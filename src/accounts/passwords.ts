import argon2 from 'argon2'
import type { Config } from '../config.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { limitConcurrency } from '../domain/time-slices.ts'
import { commonPasswords } from './common-passwords.ts'

/** argon2id with OWASP's smallest recommended cost: 33 ms. The library's default takes 240 ms (CONTRACT 5.2). */
const cost = { type: argon2.argon2id, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

/**
 * A hash whose password nobody knows. Passwords for unknown accounts, and for those without a password, are checked
 * against it at the same cost.
 */
const nobodysHash =
  '$argon2id$v=19$m=19456,p=1,t=2$zkY1icGpUMymFBlYwv7JiQ$kEpWsGuzHeS+BEd2N9QKnOHJO9MsW7ISXlU+6Q7t9KU'

/** Longer passwords are refused before they are hashed. */
export const maxPasswordBytes = 1024

/** The minimum length of a chosen password, in characters. */
export const minPasswordCharacters = 12

/**
 * Checks a chosen password: its length, and that it is neither common nor the username. NIST SP 800-63B §5.1.1.2
 * recommends no other rules. Returns the problem as a sentence; null when there is none.
 */
export function findPasswordProblem(password: string, username: string): string | null {
  if (Array.from(password).length < minPasswordCharacters) {
    return `The password needs at least ${minPasswordCharacters} characters.`
  }
  if (Buffer.byteLength(password) > maxPasswordBytes) {
    return `The password is longer than ${maxPasswordBytes} bytes.`
  }
  const lower = password.toLowerCase()
  if (lower === username.toLowerCase()) return 'The password is the username. Choose another one.'
  if (commonPasswords.has(lower)) return 'This is one of the most common passwords. Choose another one.'
  return null
}

/** Returns whether `PASSWORD_SIGN_IN` lets an account use its password. Commands do not check it. */
export function mayUsePassword(
  { passwordSignIn }: Pick<Config, 'passwordSignIn'>,
  isAdmin: boolean,
): boolean {
  return passwordSignIn === 'on' || (passwordSignIn === 'admins' && isAdmin)
}

/** Returns the message for people who may not use a password. */
export function noPasswordHere({ passwordSignIn }: Pick<Config, 'passwordSignIn'>): string {
  return passwordSignIn === 'admins'
    ? 'Only administrators can sign in with a password. Sign in another way.'
    : 'You cannot sign in with a password here. Sign in another way.'
}

/**
 * argon2 runs on libuv's thread pool, which the whole process shares, worker threads included. The pool has four
 * threads. With two hashes at once, file reads, compression and DNS always find a free thread.
 */
const maxRunningHashes = 2
/** The maximum number of waiting hashes, which take about a second. Later requests are rejected at once. */
const maxWaitingHashes = 60

/** Thrown when too many passwords wait to be hashed. The status is 429, and the client may retry. */
export class HashQueueFullError extends Refusal {
  constructor() {
    super(
      errcode.resourceExhausted,
      'too many people are signing in at this moment. Try again in a few seconds',
      { retryAfterSeconds: 2 },
    )
  }
}

// All apps in the process share this queue, because they share the thread pool.
const inTurn = limitConcurrency(maxRunningHashes)
let unfinished = 0

/** Hashes a password with argon2id, in PHC notation. Throws HashQueueFullError. */
export function hashPassword(password: string): Promise<string> {
  return run(() => argon2.hash(password, cost))
}

/**
 * Returns whether a password matches a hash. Without a hash it never does, and takes the same time. Throws
 * HashQueueFullError.
 */
export async function isPassword(password: string, hash: string | null): Promise<boolean> {
  if (Buffer.byteLength(password) > maxPasswordBytes) return false
  const isMatch = await run(() => argon2.verify(hash ?? nobodysHash, password))
  return isMatch && hash !== null
}

/** Returns whether a hash has other parameters than the current ones. */
export function needsRehash(hash: string): boolean {
  return argon2.needsRehash(hash, cost)
}

/** Runs the work in the order of the calls. Throws HashQueueFullError when too many wait. */
async function run<Result>(work: () => Promise<Result>): Promise<Result> {
  if (unfinished >= maxRunningHashes + maxWaitingHashes) throw new HashQueueFullError()
  unfinished += 1
  try {
    return await inTurn(work)
  } finally {
    unfinished -= 1
  }
}
