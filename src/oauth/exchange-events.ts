import { setTimeout as sleep } from 'node:timers/promises'
import type { Queryable } from '../database/database.ts'
import type { Job } from '../jobs/job.ts'

/** The maximum number of token pairs that one statement reads. */
const pairsPerStatement = 2_000
/** How long a run waits for transactions that may still commit an older pair. The next run continues. */
const pollMilliseconds = 50
const maxPolls = 20

/**
 * Writes the identity event `token-created` for every exchanged code. A refresh writes no event: it only replaces a token,
 * and happens for each token every few hours.
 *
 * The exchange stores the data of the event in the row of the new token pair. So no event is lost when the process is
 * killed, and a pair that commits late is not skipped: see the SQL functions `note_exchanges` and
 * `move_exchange_horizon`.
 */
export const noteExchangesJob: Job = {
  name: 'note-exchanges',
  everySeconds: 5,
  async run({ db }, _data, signal) {
    // Begin with the pairs that an earlier run has left.
    await noteAll(db, signal)
    if (await moveHorizon(db)) await noteAll(db, signal)
  },
}

async function noteAll(db: Queryable, signal: AbortSignal): Promise<void> {
  let polls = 0
  for (;;) {
    signal.throwIfAborted()
    const seen = await noteExchanges(db, pairsPerStatement)
    if (seen === null) {
      polls += 1
      if (polls > maxPolls) return
      await sleep(pollMilliseconds, undefined, { signal })
    } else if (seen < pairsPerStatement) {
      return
    }
  }
}

/** Writes the events of at most `limit` token pairs. Returns how many pairs it read; null when it must wait. */
async function noteExchanges(db: Queryable, limit: number): Promise<number | null> {
  const { rows } = await db.query<{ seen: number | null }>('select note_exchanges(max_count => $1) as seen', [
    limit,
  ])
  return rows[0]?.seen ?? null
}

/** Returns whether there are newer token pairs to read. */
async function moveHorizon(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ isMoved: boolean }>('select move_exchange_horizon() as "isMoved"')
  return rows[0]?.isMoved === true
}
