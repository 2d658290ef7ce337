import type { Queryable } from '../database/database.ts'
import type { Job } from '../jobs/job.ts'

/** The maximum number of exchanges that one statement reads. */
const exchangesPerStatement = 2_000

/**
 * Writes the identity event `token-created` for every exchanged code. A refresh writes no event: it only replaces a token,
 * and happens for each token every few hours.
 *
 * The exchange puts the data of its event into a queue, in its own transaction. So no event is lost when the process is
 * killed.
 */
export const noteExchangesJob: Job = {
  name: 'note-exchanges',
  everySeconds: 5,
  async run({ db }, _data, signal) {
    while ((await noteExchanges(db, exchangesPerStatement)) === exchangesPerStatement) signal.throwIfAborted()
  },
}

/** Writes the events of at most `limit` exchanges. Returns how many. */
async function noteExchanges(db: Queryable, limit: number): Promise<number> {
  const { rows } = await db.query<{ seen: number }>('select note_exchanges(max_count => $1) as seen', [limit])
  return rows[0]?.seen ?? 0
}
