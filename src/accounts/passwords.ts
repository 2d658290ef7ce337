import argon2 from 'argon2'
import { PageError } from '../http/page-error.ts'
import { commonPasswords } from './common-passwords.ts'

/** argon2id with OWASP's smallest recommended cost: 33 ms, against 240 ms of the library's default (DESIGN §5). */
const cost = { type: argon2.argon2id, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

/** A hash of the same cost whose password nobody knows: the password of an unknown account is checked against it. */
export const nobodysHash =
  '$argon2id$v=19$m=19456,p=1,t=2$zkY1icGpUMymFBlYwv7JiQ$kEpWsGuzHeS+BEd2N9QKnOHJO9MsW7ISXlU+6Q7t9KU'

/** Longer passwords are refused before they are hashed. */
export const maxPasswordBytes = 1024

/** Shortest password that can be chosen, in characters. SPEC does not show one. */
export const minPasswordCharacters = 12

/**
 * The one rule for chosen passwords: length, not common, and not the username (NIST SP 800-63B §5.1.1.2 recommends
 * nothing else). Returns why the password cannot be chosen, as a sentence; null when it can.
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

/**
 * argon2 runs on libuv's thread pool, which the whole process shares, worker threads included. The pool has four
 * threads: with two hashes at once, file reads, compression and DNS always find a free one.
 */
const maxRunningHashes = 2
/** About a second of work. Whoever comes later is refused at once instead of waiting longer and longer. */
const maxWaitingHashes = 60

/** So many passwords wait to be hashed that one more would wait too long: 429, the caller may retry. */
export class HashQueueFullError extends PageError {
  constructor() {
    super(429, 'Too many people are signing in at this moment. Try again in a few seconds.', {
      'retry-after': '2',
    })
    this.name = 'HashQueueFullError'
  }
}

// The queue belongs to the process because the thread pool does: a second app in the process must share it.
const waiting: (() => void)[] = []
let running = 0

/** The stored form of a password: argon2id in PHC notation. Throws HashQueueFullError. */
export function hashPassword(password: string): Promise<string> {
  return inTurn(() => argon2.hash(password, cost))
}

/** Whether the password is the one that was hashed. Throws HashQueueFullError. */
export async function isPassword(password: string, hash: string): Promise<boolean> {
  if (Buffer.byteLength(password) > maxPasswordBytes) return false
  return inTurn(() => argon2.verify(hash, password))
}

/** Whether the hash was made with other parameters than today's. */
export function needsRehash(hash: string): boolean {
  return argon2.needsRehash(hash, cost)
}

/** Runs the work when fewer than `maxRunningHashes` hashes run, in the order of the calls. */
async function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
  if (running < maxRunningHashes) {
    running += 1
  } else {
    if (waiting.length >= maxWaitingHashes) throw new HashQueueFullError()
    // Whoever finishes passes its place on, so `running` stays the same.
    await new Promise<void>((resolve) => waiting.push(resolve))
  }
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next) next()
    else running -= 1
  }
}
