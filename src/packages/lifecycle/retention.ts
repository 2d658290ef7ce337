import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import { formatCount } from '../../domain/formats.ts'
import { background, type Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { insertEvent, insertEvents } from '../../events/events.ts'
import { lockRepository } from '../../groups/repositories.ts'
import type { Job } from '../../jobs/job.ts'
import { renderVersionChanges } from '../documents/render.ts'
import { type LockedPackage, lockNamedPackage } from '../tables/packages.ts'
import {
  findRetention,
  type JudgedVersion,
  listDuePackages,
  listDueRetentions,
  markPurgedByRule,
  markRetired,
  maxArchiveDays,
  maxKeptVersions,
  noteRetentionApplied,
  type Retention,
  type RetentionRules,
  type RetiredVersion,
  saveRetention,
} from '../tables/retention.ts'
import { finishPurge } from './deletion.ts'

/** How often the server looks for repositories whose rules are due. */
const lookSeconds = 600
/** How many versions of a package one transaction deletes, so that it holds the lock of the package for a short time. */
const versionsAtOnce = 20

/** Throws errcode 3 for rules that are not allowed. */
export function requireRules({ keepDevelopment, deletedArchivesDays }: RetentionRules): void {
  const rules = [
    [keepDevelopment, maxKeptVersions, 'keep_development must be a number of versions'],
    [deletedArchivesDays, maxArchiveDays, 'deleted_archives_days must be a number of days'],
  ] as const
  for (const [value, most, sentence] of rules) {
    if (value === null || (Number.isInteger(value) && value >= 1 && value <= most)) continue
    throw new Refusal(errcode.invalidArgument, `${sentence} from 1 to ${most}, or off`)
  }
}

/**
 * Sets the retention rules of a repository, and writes an event if they are others then. Stricter rules are applied a day later.
 * Throws errcode 3 for rules that are not allowed, and 5 when the repository was deleted.
 */
export async function setRetention(
  db: pg.Pool,
  { repositoryId, by }: { repositoryId: string; by: Principal },
  rules: RetentionRules,
): Promise<Retention> {
  requireRules(rules)
  return transaction(db, async (tx) => {
    await lockRepository(tx, repositoryId)
    const former = await findRetention(tx, repositoryId)
    await saveRetention(tx, repositoryId, rules)
    const names = (['keepDevelopment', 'deletedArchivesDays'] as const).filter(
      (name) => rules[name] !== former[name],
    )
    if (names.length > 0) {
      const valuesOf = (some: RetentionRules) => Object.fromEntries(names.map((name) => [name, some[name]]))
      const details = { ...valuesOf(rules), from: valuesOf(former) }
      await insertEvent(tx, by, { action: 'set-retention', repositoryId, details })
    }
    return findRetention(tx, repositoryId)
  })
}

/** Applies the retention rules of each repository once a day. */
export const applyRetentionJob: Job = {
  name: 'apply-retention',
  everySeconds: lookSeconds,
  async run({ config, db, log }, _data, signal) {
    for (const repositoryId of await listDueRetentions(db)) {
      let count = 0
      for (const packageName of await listDuePackages(db, repositoryId)) {
        for (let done = versionsAtOnce; done >= versionsAtOnce; count += done) {
          signal.throwIfAborted()
          done = await applyToPackage(db, { repositoryId, packageName, baseUrl: config.baseUrl })
        }
      }
      await noteRetentionApplied(db, repositoryId)
      if (count > 0) log.info({ repositoryId, versions: count }, 'retention rules were applied')
    }
  },
}

/**
 * Deletes and purges a few versions of a package. Publications, restores and other changes of the package hold its lock, too,
 * and the statements here judge the versions again under it. Returns how many there were.
 */
async function applyToPackage(
  db: pg.Pool,
  { repositoryId, packageName, baseUrl }: { repositoryId: string; packageName: string; baseUrl: string },
): Promise<number> {
  return transaction(db, async (tx) => {
    const held = await lockNamedPackage(tx, repositoryId, packageName)
    if (!held) return 0
    const deleted = await markRetired(tx, held, versionsAtOnce)
    if (deleted.length > 0) await renderVersionChanges(tx, held, { changed: deleted, isDev: true }, baseUrl)
    const purged = await markPurgedByRule(tx, held, versionsAtOnce)
    if (purged.length > 0) await finishPurge(tx, held)
    await insertEvents(tx, background, [
      ...deleted.map((one) =>
        eventOf(held, one, 'delete', `retention rule: keeps ${formatCount(one.rule, 'development version')}`),
      ),
      ...purged.map((one) =>
        eventOf(held, one, 'purge', `retention rule: ${formatCount(one.rule, 'day')} after the deletion`),
      ),
    ])
    return Math.max(deleted.length, purged.length)
  })
}

function eventOf(
  { repositoryId, name }: LockedPackage,
  { version }: RetiredVersion,
  action: 'delete' | 'purge',
  reason: string,
) {
  return { action, repositoryId, packageName: name, version, details: { reason } }
}

/** Describes the rules of a repository for the API and `--json`. */
export function describeRetention({ keepDevelopment, deletedArchivesDays, dueAt }: Retention) {
  return {
    keep_development: keepDevelopment,
    deleted_archives_days: deletedArchivesDays,
    due_at: dueAt?.toISOString() ?? null,
  }
}

/** Says in words why rules take a version, or why it stays. */
export function explainVerdict({ verdict, newer }: Pick<JudgedVersion, 'verdict' | 'newer'>): string {
  return {
    delete: `${formatCount(newer ?? 0, 'development version')} changed later`,
    purge: 'it was deleted long enough ago',
    newest: 'it is one of the newest development versions',
    lasting: 'it is the version of a lasting branch, or a release',
    project: 'the lock file of a project names it, or has named it this week',
    restored: 'somebody restored it after a retention rule had deleted it',
    quarantined: 'it is in quarantine',
    recent: 'it was deleted recently',
  }[verdict]
}

/** Describes a judged version for the API and `--json`. */
export function describeJudged(one: JudgedVersion) {
  const { packageName, version, verdict, changedAt, deletedAt } = one
  return {
    package: packageName,
    version,
    act: verdict === 'delete' || verdict === 'purge' ? verdict : ('keep' as const),
    reason: explainVerdict(one),
    changed_at: changedAt.toISOString(),
    deleted_at: deletedAt?.toISOString() ?? null,
  }
}
