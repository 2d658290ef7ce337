import type { Queryable } from '../database/database.ts'
import { formatCount, formatTime } from '../domain/formats.ts'
import { listAdminsToTell } from '../groups/admins.ts'
import { dailyNotices } from '../mail/daily-notices.ts'
import { personOf, siteOf } from '../mail/mail.ts'
import { type MailKind, queueMail } from '../mail/mail-queue.ts'
import { reservedDays, reservedNames } from '../packages/tables/reserved-names.ts'

/** The admins of a repository get a mail this many days before a reservation of names lapses. */
const noticeDays = 7

/**
 * Queues a mail to each admin of a repository where a reservation of names lapses within 7 days, once for each trusted
 * publisher.
 */
export const noteLapsingReservationsJob = dailyNotices({
  name: 'note-lapsing-reservations',
  limit: 100,
  async note(tx, config, limit) {
    const noted = await noteLapsingReservations(tx, limit)
    for (const { id: publisherId, repositoryId } of noted)
      for (const accountId of await listAdminsToTell(tx, { repositoryId }))
        await queueMail(tx, config, reservationMail, { publisherId, accountId })
    return noted.length
  },
})

/** Marks at most `limit` trusted publishers whose reservations lapse soon. Returns them. */
async function noteLapsingReservations(
  db: Queryable,
  limit: number,
): Promise<{ id: string; repositoryId: string }[]> {
  const { rows } = await db.query<{ id: string; repositoryId: string }>(
    `update trusted_publisher set reservation_noted_at = now()
      where id in (
        select p.id from trusted_publisher p
          join repository r on r.id = p.repository_id and r.group_id is not null
         where p.reservation_noted_at is null
           and p.created_at <= now() - make_interval(days => $1) and cardinality(${reservedNames}) > 0
         order by p.id limit $2
           for update of p skip locked)
     returning id, repository_id as "repositoryId"`,
    [reservedDays - noticeDays, limit],
  )
  return rows
}

/** The mail that tells an admin of a repository that a reservation of names lapses soon. */
export const reservationMail: MailKind<{ publisherId: string; accountId: string }> = {
  name: 'reservation-lapses',
  async compose({ config, db }, wanted) {
    const lapsing = await findLapsing(db, wanted)
    if (!lapsing) return null
    const { path, project, issuer, names, until } = lapsing
    return {
      to: personOf(lapsing),
      subject: `A reserved package name of ${path} lapses soon (${siteOf(config)})`,
      paragraphs: [
        `A trusted publisher of ${path} reserves ${formatCount(names.length, 'package name')}. After ${formatTime(until)}, everybody who may publish in ${path} can publish the first version.`,
      ],
      facts: [
        ['Packages', names.join(', ')],
        ['Trusted publisher', project ?? issuer],
      ],
      link: { label: 'Open the trusted publishers', url: `${config.baseUrl}/${path}/-/trusted-publishers` },
      advice: [
        'To keep the names, publish a first version with the CI job before. To reserve them for longer, remove the trusted publisher and add it again.',
      ],
    }
  },
}

interface Lapsing {
  username: string
  displayName: string
  email: string
  /** `acme/php`. */
  path: string
  /** Null when the trusted publisher has only claims. */
  project: string | null
  issuer: string
  names: string[]
  until: Date
}

/** Finds a reservation. Null when it has ended meanwhile, or the account is no admin of the repository any more. */
async function findLapsing(
  db: Queryable,
  { publisherId, accountId }: { publisherId: string; accountId: string },
): Promise<Lapsing | null> {
  const { rows } = await db.query<Lapsing & { repositoryId: string }>(
    `select a.username, a.display_name as "displayName", a.email, g.name || '/' || r.name as path, p.project, p.issuer,
            ${reservedNames} as names, p.created_at + interval '${reservedDays} days' as until,
            p.repository_id as "repositoryId"
       from trusted_publisher p
       join repository r on r.id = p.repository_id
       join repository_group g on g.id = r.group_id
       join account a on a.id = $2
      where p.id = $1`,
    [publisherId, accountId],
  )
  const [lapsing] = rows
  if (!lapsing || lapsing.names.length === 0) return null
  return (await listAdminsToTell(db, lapsing)).includes(accountId) ? lapsing : null
}
