import { createHash } from 'node:crypto'
import ipaddr from 'ipaddr.js'
import type { Queryable } from '../database/database.ts'

/** How many attempts a subject has. A window starts with the first attempt; when it ends, the count starts again. */
export interface AttemptLimit {
  /** Names the subject, its kind first: `sign-in from 192.0.2.1`. Any text, any length. */
  subject: string
  attempts: number
  windowSeconds: number
}

/**
 * Counts one attempt against each subject, the broadest first, and stops at the first one over its limit. Returns for
 * how many seconds that subject is blocked; 0 when the attempt is allowed. Many attempts at once cannot pass together:
 * each gets its own count.
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

/** Takes back one attempt against each subject: it succeeded, or it was not made. `cleared` subjects start again. */
export async function takeBackAttempt(
  db: Queryable,
  limits: readonly AttemptLimit[],
  cleared: readonly AttemptLimit[] = [],
): Promise<void> {
  await db.query({
    name: 'take-back-attempt',
    // Locked in the order of count_attempt, so that the two cannot wait for each other.
    text: `with counted as materialized (
             select key_hash, failures = 1 or key_hash = any($2) as is_over
               from auth_failure where key_hash = any($1)
              order by array_position($1, key_hash) for update
           ), removed as (
             delete from auth_failure f using counted c where f.key_hash = c.key_hash and c.is_over
           )
           update auth_failure f set failures = f.failures - 1
             from counted c where f.key_hash = c.key_hash and not c.is_over`,
    values: [limits.map(keyOf), cleared.map(keyOf)],
  })
}

/** The part of an IP address that one subscriber has: a whole IPv4 address, the first 64 bits of an IPv6 address. */
export function networkOf(ip: string): string {
  if (!ipaddr.isValid(ip)) return ip
  // Also turns an IPv4 address that is written as IPv6 (::ffff:192.0.2.1) back into IPv4.
  const address = ipaddr.process(ip)
  if (!(address instanceof ipaddr.IPv6)) return address.toString()
  const groups = address.parts.slice(0, 4).map((part) => part.toString(16))
  return `${groups.join(':')}::/64`
}

/** The stored form: of one length, whatever a client sends. */
function keyOf({ subject }: AttemptLimit): Buffer {
  return createHash('sha256').update(subject).digest()
}

/** Deletes counts whose window has ended. At most `limit`; returns how many. */
export async function deleteExpiredAttempts(db: Queryable, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from auth_failure
      where key_hash in (select key_hash from auth_failure where window_ends_at < now() limit $1 for update skip locked)`,
    [limit],
  )
  return rowCount ?? 0
}
