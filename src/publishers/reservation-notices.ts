import { transaction } from '../database/database.ts'
import { background } from '../domain/principal.ts'
import { insertEvents } from '../events/events.ts'
import type { Job } from '../jobs/job.ts'
import { reservedDays, reservedNames } from '../packages/tables/reserved-names.ts'

/** The admins of a repository are told this many days before a reservation of names lapses. */
const noticeDays = 7
const reservationsPerTransaction = 100

/** Writes an event when a reservation of names lapses within 7 days, once for each trusted publisher. */
export const noteLapsingReservationsJob: Job = {
  name: 'note-lapsing-reservations',
  everySeconds: 86_400,
  async run({ db }, _data, signal) {
    for (let noted = reservationsPerTransaction; noted === reservationsPerTransaction; ) {
      signal.throwIfAborted()
      noted = await transaction(db, async (tx) => {
        const { rows } = await tx.query<Lapsing>(
          `update trusted_publisher p set reservation_noted_at = now()
            where id in (
              select p.id from trusted_publisher p
                join repository r on r.id = p.repository_id and r.group_id is not null
               where p.reservation_noted_at is null
                 and p.created_at <= now() - make_interval(days => $1) and cardinality(${reservedNames}) > 0
               order by p.id limit $2
                 for update of p skip locked)
        returning p.id, p.repository_id as "repositoryId", coalesce(p.project, p.issuer) as project,
                  ${reservedNames} as names, p.created_at + interval '${reservedDays} days' as until`,
          [reservedDays - noticeDays, reservationsPerTransaction],
        )
        const events = rows.map(({ id, repositoryId, names, project, until }) => ({
          action: 'reservation-lapsing' as const,
          repositoryId,
          // An event must stay small.
          details: { publisher: Number(id), project, names: names.slice(0, 20), until: until.toISOString() },
        }))
        await insertEvents(tx, background, events)
        return rows.length
      })
    }
  },
}

interface Lapsing {
  id: string
  repositoryId: string
  /** The issuer when the trusted publisher has only claims. */
  project: string
  names: string[]
  until: Date
}
