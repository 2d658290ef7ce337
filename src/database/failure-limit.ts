import { createHash } from 'node:crypto'
import { widerNetworkOf } from '../domain/client-ip.ts'
import { type Queryable, sweepOf } from './database.ts'

/**
 * The maximum attempts of a subject in a window. The window starts with the first attempt. After it, the count
 * restarts.
 */
export interface AttemptLimit {
  /** The name of the subject, which begins with its kind: `sign-in from 192.0.2.1`. It may have any length. */
  subject: string
  attempts: number
  windowSeconds: number
}

/** How many times more attempts the /48 of an IPv6 has than each /64: some providers share a /48 among customers. */
const widerNetworkFactor = 4

/**
 * Returns the limits of attempts from a network (see `networkOf`), the broadest first. Behind IPv6, the /48 is counted
 * too: otherwise its 65,536 networks would have a limit each.
 */
export function limitsFrom(network: string, limit: AttemptLimit): AttemptLimit[] {
  const subject = `${limit.subject} from ${network}`
  const wider = widerNetworkOf(network)
  if (wider === null) return [{ ...limit, subject }]
  const attempts = limit.attempts * widerNetworkFactor
  return [
    { ...limit, subject: `${limit.subject} from ${wider}`, attempts },
    { ...limit, subject },
  ]
}

/**
 * Counts one attempt against each subject, the broadest first, and stops at the first one over its limit. Returns the
 * seconds for which that subject is blocked, or 0 when the attempt is allowed. Concurrent attempts cannot all pass,
 * because each gets its own count.
 */
export async function countAttempt(db: Queryable, limits: readonly AttemptLimit[]): Promise<number> {
  const { rows } = await db.query<{ blockedSeconds: number }>({
    name: 'count-attempt',
    text: `select count_attempt(keys => $1, limits => $2, window_seconds => $3) as "blockedSeconds"`,
    values: [
      limits.map(keyOf),
      limits.map(({ attempts }) => attempts),
      limits.map(({ windowSeconds }) => windowSeconds),
    ],
  })
  return rows[0]?.blockedSeconds ?? 0
}

/** Subtracts one attempt from each subject, because it succeeded or was not made. Resets the `cleared` subjects. */
export async function takeBackAttempt(
  db: Queryable,
  limits: readonly AttemptLimit[],
  cleared: readonly AttemptLimit[] = [],
): Promise<void> {
  await db.query({
    name: 'take-back-attempt',
    text: 'select take_back_attempt(keys => $1, cleared_keys => $2)',
    values: [limits.map(keyOf), cleared.map(keyOf)],
  })
}

/** Resets subjects, because their person has proved who they are. */
export async function clearAttempts(db: Queryable, limits: readonly AttemptLimit[]): Promise<void> {
  await takeBackAttempt(db, limits, limits)
}

/** Returns the stored key of a subject. All keys have the same length. */
function keyOf({ subject }: AttemptLimit): Buffer {
  return createHash('sha256').update(subject).digest()
}

/** Deletes at most `limit` counts whose window has ended. Returns how many it deleted. */
export const deleteExpiredAttempts = sweepOf('auth_failure', 'key_hash', 'window_ends_at < now()')
