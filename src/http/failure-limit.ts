import { createHash } from 'node:crypto'
import { isIPv6 } from 'node:net'
import type { Queryable } from '../database/database.ts'

/**
 * What is counted, and how much of it is borne: after `failures` failures within `windowSeconds` of the first one,
 * the subject is blocked until that window ends.
 */
export interface FailureLimit {
  /** Names the subject, its kind first: `sign-in account alice`. Any text, any length. */
  subject: string
  failures: number
  windowSeconds: number
}

/** Counts one failure against each subject. Answers for how many seconds the longest block lasts, 0 without one. */
export async function countFailure(db: Queryable, limits: readonly FailureLimit[]): Promise<number> {
  // Every statement meets the rows in the same order, so that two of them cannot wait for each other.
  const ordered = limits
    .map((limit) => ({ ...limit, key: keyOf(limit) }))
    .sort((a, b) => a.key.compare(b.key))
  const { rows } = await db.query<{ key: Buffer; failures: number; secondsLeft: number }>({
    name: 'count-failure',
    text: `insert into auth_failure as f (key_hash, failures, window_ends_at)
           select key, 1, now() + make_interval(secs => seconds)
             from unnest($1::bytea[], $2::integer[]) as counted (key, seconds)
               on conflict (key_hash) do update
              set failures = case when f.window_ends_at > now() then f.failures + 1 else 1 end,
                  window_ends_at = case when f.window_ends_at > now() then f.window_ends_at
                                        else excluded.window_ends_at end
        returning key_hash as key, failures, ceil(extract(epoch from window_ends_at - now()))::integer as "secondsLeft"`,
    values: [ordered.map(({ key }) => key), ordered.map(({ windowSeconds }) => windowSeconds)],
  })
  return longestBlock(limits, rows)
}

/** For how many seconds one of the subjects is still blocked; 0 when none is. Writes nothing. */
export async function findBlock(db: Queryable, limits: readonly FailureLimit[]): Promise<number> {
  const { rows } = await db.query<{ key: Buffer; failures: number; secondsLeft: number }>({
    name: 'find-block',
    text: `select key_hash as key, failures, ceil(extract(epoch from window_ends_at - now()))::integer as "secondsLeft"
             from auth_failure where key_hash = any($1) and window_ends_at > now()`,
    values: [limits.map(keyOf)],
  })
  return longestBlock(limits, rows)
}

/** Forgets the failures of the subjects, as after a sign-in that succeeded. */
export async function forgetFailures(db: Queryable, limits: readonly FailureLimit[]): Promise<void> {
  await db.query({
    name: 'forget-failures',
    text: 'delete from auth_failure where key_hash = any($1)',
    values: [limits.map(keyOf)],
  })
}

/** The part of an address that one subscriber has: all of an IPv4 address, the first 64 bits of an IPv6 one. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped?.[1]) return mapped[1]
  const [before = '', after] = address.replace(/%.*/, '').split('::')
  const head = before === '' ? [] : before.split(':')
  const tail = after ? after.split(':') : []
  const zeros = after === undefined ? [] : Array<string>(8 - head.length - tail.length).fill('0')
  const groups = [...head, ...zeros, ...tail].slice(0, 4)
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`
}

/** The stored form, of one length whatever a stranger sends. */
function keyOf({ subject }: FailureLimit): Buffer {
  return createHash('sha256').update(subject).digest()
}

function longestBlock(
  limits: readonly FailureLimit[],
  counts: readonly { key: Buffer; failures: number; secondsLeft: number }[],
): number {
  const blocks = counts.map(({ key, failures, secondsLeft }) => {
    const limit = limits.find((one) => keyOf(one).equals(key))
    return limit && failures >= limit.failures ? secondsLeft : 0
  })
  return Math.max(0, ...blocks)
}
