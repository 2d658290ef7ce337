import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import * as z from 'zod'
import { type Queryable, transaction } from '../database/database.ts'
import type { Log } from '../domain/log.ts'
import type { ArchiveStore } from './archive-store.ts'
import {
  advanceClaim,
  type ClaimStep,
  endClaimTurn,
  findClaim,
  lockClaim,
  loseClaim,
  type OwnClaim,
  renewClaim,
  silentSeconds,
  takeClaimTurn,
} from './tables/store-claims.ts'

/*
 * A copy of a database, a restored backup and a database that was recovered to an earlier time have the id of the original.
 * They must not remove its archives, and must not send its mails. So database and store share a claim: an incarnation and a
 * counter. While a server runs, one of its processes makes a step every 20 seconds: it checks that the store has the latest
 * step of this database or the one before, writes the latest one to the store, and then makes the next one in the database.
 *
 * - A copy falls behind the store while the original lives, and loses its claim. Before its first step it waits until the
 *   last step is 90 seconds old, so a living original is always noticed.
 * - A database that was recovered to an earlier time is behind the store.
 * - The store is one step late. So a standby that lost the last seconds of its primary is not behind it.
 * - Of two databases that go on from the same step, the one that writes last keeps the claim: the other one finds a step that
 *   it did not make.
 *
 * Only `svc archives claim` brings a lost claim back.
 */

/** The time between two steps. */
const stepSeconds = 20

const StoredClaim = z.object({
  incarnation: z.uuid(),
  counter: z.number().int().nonnegative(),
  nonce: z.uuid(),
  /** When the step was written, by the clock of the process that wrote it. */
  at: z.iso.datetime(),
})
type StoredClaim = z.output<typeof StoredClaim>

/** Thrown by work that only the database with the claim on its store may do. */
export class NotClaimed extends Error {
  constructor(store: ArchiveStore, because: string) {
    super(
      `This database has no claim on the archives in ${store.place}: ${because}. It removes no archives and sends no mails. If no other server uses this archive store, run svc archives claim.`,
    )
  }
}

/**
 * Settles the claim of a database that was restored from a backup. A new store belongs to it alone. When the restore was
 * forced into a used store, somebody must claim that. Returns whether the database has the claim.
 */
export async function settleRestoredClaim(
  db: Queryable,
  store: ArchiveStore,
  { isUsed }: { isUsed: boolean },
): Promise<boolean> {
  const own = await findClaim(db)
  const stored = await readClaim(store)
  const because = isUsed ? 'it was restored into an archive store in use' : whyForeign(stored, own)
  if (because !== null) await loseClaim(db, own.incarnation, because)
  else if (stored === null) await renewClaim(db, 0)
  return because === null
}

/** Throws `NotClaimed` unless this database has the claim on its store. A new store gets the claim of its database. */
export async function requireClaim(db: Queryable, store: ArchiveStore): Promise<void> {
  const own = await findClaim(db)
  const stored = await readClaim(store)
  const because = own.lostBecause ?? whyForeign(stored, own)
  if (because !== null) throw new NotClaimed(store, because)
  if (stored === null) await writeClaim(store, own)
}

/**
 * Takes the store for this database, whatever its claim is. Every other database then loses its claim. Returns false when
 * this database had the claim already. Throws when the server of another database is alive, unless it is forced.
 */
export async function claimArchives(
  db: pg.Pool,
  store: ArchiveStore,
  { isForced }: { isForced: boolean },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    // The row stays locked until the store has the new claim. A running server would find the claim of the other database in
    // the store, and lose the new one. Of two commands at once, the second finds the claim of the first.
    await lockClaim(tx)
    // A bucket may respond later than an idle transaction may wait.
    await tx.query('set local idle_in_transaction_session_timeout = 0')
    const own = await findClaim(tx)
    const stored = await readClaim(store)
    const isForeign = whyForeign(stored, own) !== null
    if (own.lostBecause === null && !isForeign && stored !== null) return false
    const seconds = stored && stored !== 'unreadable' ? secondsSince(stored.at) : Number.POSITIVE_INFINITY
    if (isForeign && seconds < silentSeconds && !isForced) {
      throw new Error(
        `A server of another database used the archives in ${store.place} ${Math.max(0, Math.round(seconds))} seconds ago. Stop it, and try again after ${silentSeconds} seconds, or use --force.`,
      )
    }
    const counter = stored && stored !== 'unreadable' ? stored.counter : 0
    await writeClaim(store, await renewClaim(tx, counter))
    return true
  })
}

/** Keeps the claim of this database while the process runs. */
export interface ClaimKeeper {
  /** Whether this process knows that its database has the claim. */
  hasClaim: () => boolean
  /** Makes the step that is due. */
  step: () => Promise<void>
  stop: () => Promise<void>
}

/** Starts to keep the claim. */
export function keepClaim(db: pg.Pool, store: ArchiveStore, log: Log): ClaimKeeper {
  const keeper = randomUUID()
  let hasClaim = false
  let isLost = false
  /** The first step that this process has seen. When another process makes the next one, this database is alive. */
  let firstSeen: ClaimStep | null = null

  async function tryStep(): Promise<void> {
    const turn = await takeClaimTurn(db, keeper)
    if (turn === null) return look()
    const stored = await readClaim(store)
    const because = whyForeign(stored, turn)
    if (because !== null) {
      await loseClaim(db, turn.incarnation, because)
      return look()
    }
    await writeClaim(store, turn)
    if (await advanceClaim(db, keeper, turn)) note(null)
  }

  /** Learns from the database what another process has found out. */
  async function look(): Promise<void> {
    const now = await findClaim(db)
    firstSeen ??= now
    if (now.lostBecause !== null) note(now.lostBecause)
    else if (now.incarnation !== firstSeen.incarnation || now.counter > firstSeen.counter) note(null)
  }

  function note(lostBecause: string | null): void {
    hasClaim = lostBecause === null
    if (lostBecause !== null && !isLost) log.error(new NotClaimed(store, lostBecause).message)
    if (lostBecause === null && isLost) log.info('this database has claimed its archive store again')
    isLost = lostBecause !== null
  }

  let stepping = Promise.resolve()
  const step = () => {
    stepping = stepping
      .then(tryStep)
      .catch((error: unknown) => log.warn({ err: error }, 'the claim on the archive store cannot be checked'))
    return stepping
  }
  void step()
  const timer = setInterval(() => void step(), stepSeconds * 1000).unref()
  return {
    hasClaim: () => hasClaim,
    step,
    async stop() {
      clearInterval(timer)
      await stepping
      await endClaimTurn(db, keeper).catch((error: unknown) =>
        log.warn({ err: error }, 'the claim on the archive store was not released'),
      )
    },
  }
}

/** Returns why the claim in a store is not that of this database. Null when it is, and when the store has none. */
function whyForeign(stored: StoredClaim | 'unreadable' | null, own: OwnClaim): string | null {
  if (stored === null) return null
  if (stored === 'unreadable') return 'the file archives/claim there is damaged'
  if (stored.incarnation !== own.incarnation) return 'another database has claimed them'
  const isLatest = stored.counter === own.counter && stored.nonce === own.nonce
  const isPrevious = stored.counter === own.counter - 1 && stored.nonce === own.previousNonce
  if (isLatest || isPrevious) return null
  return stored.counter > own.counter
    ? 'they were used after the state of this database, which is a copy, or was restored to an earlier time'
    : 'a copy of this database used them, or the archive store was restored to an earlier time'
}

async function readClaim(store: ArchiveStore): Promise<StoredClaim | 'unreadable' | null> {
  const text = await store.readClaim()
  if (text === null) return null
  try {
    return StoredClaim.parse(JSON.parse(text))
  } catch {
    return 'unreadable'
  }
}

async function writeClaim(store: ArchiveStore, { incarnation, counter, nonce }: ClaimStep): Promise<void> {
  const claim: StoredClaim = { incarnation, counter, nonce, at: new Date().toISOString() }
  await store.writeClaim(`${JSON.stringify(claim)}\n`)
}

function secondsSince(at: string): number {
  return (Date.now() - Date.parse(at)) / 1000
}
