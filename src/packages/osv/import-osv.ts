import type pg from 'pg'
import { type Queryable, transaction } from '../../database/database.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { openThreads, ThreadFailure } from '../../domain/threads.ts'
import { makePause } from '../../domain/time-slices.ts'
import { detailsOfChange, insertEvents, type NewEvent } from '../../events/events.ts'
import { queueProjectCheck } from '../../projects/check-projects.ts'
import { renderBothDocuments } from '../documents/render.ts'
import { makeAdvisoryId, maxAdvisories } from '../lifecycle/warn.ts'
import {
  type ImportedAdvisory,
  insertImported,
  type KnownAdvisory,
  listKnownAdvisories,
  updateImported,
} from '../tables/imported-advisories.ts'
import { type AdvisoryText, markWithdrawn } from '../tables/package-warnings.ts'
import { lockNamedPackage } from '../tables/packages.ts'
import type { OsvReading } from './osv-thread.ts'
import { maxOsvBytes, type OsvEntry } from './read-osv.ts'

const readMilliseconds = 10_000

/** Strangers send files: the thread reads one at a time, and one that needs too much memory ends only the thread. */
const threads = openThreads<Uint8Array>(new URL('./osv-thread', import.meta.url), {
  count: 1,
  maxHeapMegabytes: 512,
})

/** What an import does with an advisory of a file. */
export const importOutcomes = ['added', 'changed', 'withdrawn', 'unchanged', 'skipped'] as const
export type ImportOutcome = (typeof importOutcomes)[number]

/** What became of a record of a file, for one package that it names. */
export interface ImportedEntry {
  /** The id in the file. */
  id: string
  /** Null when the record names no package of Composer. */
  package: string | null
  outcome: ImportOutcome
  /** The id of the advisory here. Null when there is none, and in a dry run for a new one. */
  advisory: string | null
  /** Why it was skipped. */
  reason: string | null
}

/** An import of advisories into a repository. */
export interface OsvImport {
  repositoryId: string
  by: Principal
  baseUrl: string
  /** Whether it may change and withdraw advisories. Without that, it only adds some. */
  mayWithdraw: boolean
  /** Whether nothing is changed, to see what would be. */
  isDryRun: boolean
}

/**
 * Imports advisories of a file in OSV form into the packages of a repository. The same file again changes nothing. Each package
 * is changed in one transaction with its documents and events. Throws errcode 3 for a file that cannot be read, and 8 for one
 * that is too large.
 */
export async function importOsv(
  pool: pg.Pool,
  wanted: OsvImport,
  bytes: Uint8Array,
): Promise<ImportedEntry[]> {
  const entries = await readEntries(wanted.repositoryId, bytes)
  const outcomes = new Map<OsvEntry, ImportedEntry>()
  const packages = new Map<string, OsvEntry[]>()
  for (const entry of entries) {
    const { packageName } = entry
    if (packageName === null) {
      outcomes.set(entry, skipped(entry, entry.problem ?? ''))
      continue
    }
    const its = packages.get(packageName)
    if (its) its.push(entry)
    else packages.set(packageName, [entry])
  }
  for (const [packageName, its] of packages) {
    const done = wanted.isDryRun
      ? (await planFor(pool, wanted, packageName, its)).map(({ imported }) => imported)
      : await importInto(pool, wanted, packageName, its)
    for (const [i, imported] of done.entries()) outcomes.set(its[i] as OsvEntry, imported)
  }
  return entries.map((entry) => outcomes.get(entry) as ImportedEntry)
}

async function readEntries(repositoryId: string, bytes: Uint8Array): Promise<OsvEntry[]> {
  if (bytes.byteLength > maxOsvBytes)
    throw new Refusal(errcode.resourceExhausted, 'a file of advisories can have at most 16 MiB', {
      status: 413,
    })
  try {
    const reading = await threads.run<OsvReading>(bytes, {
      milliseconds: readMilliseconds,
      owner: repositoryId,
    })
    if ('problem' in reading) throw new Refusal(errcode.invalidArgument, reading.problem)
    return reading.entries
  } catch (error) {
    if (!(error instanceof ThreadFailure)) throw error
    throw new Refusal(errcode.invalidArgument, `the file cannot be read: it ${error.message}`, {
      cause: error,
    })
  }
}

/** What is to be done about an entry. */
interface Planned {
  imported: ImportedEntry
  /** The advisory before, if there is one. */
  known: KnownAdvisory | null
  text: ImportedAdvisory
}

/** Imports the entries of one package under its lock. */
async function importInto(
  pool: pg.Pool,
  wanted: OsvImport,
  packageName: string,
  entries: readonly OsvEntry[],
): Promise<ImportedEntry[]> {
  const { repositoryId, by, baseUrl } = wanted
  return transaction(pool, async (tx) => {
    const held = await lockNamedPackage(tx, repositoryId, packageName)
    const plan = await planFor(tx, wanted, packageName, entries)
    const events: NewEvent[] = []
    const note = (action: 'advise' | 'change-advisory' | 'withdraw', details: Record<string, unknown>) =>
      events.push({ action, repositoryId, packageName, details })
    for (const { imported, known, text } of plan) {
      const about = { advisory_id: imported.advisory, osv_id: imported.id }
      if (held && imported.outcome === 'added' && imported.advisory !== null) {
        await insertImported(tx, held.id, imported.advisory, text)
        note('advise', { ...about, ...textOf(text) })
      } else if (known && imported.outcome === 'changed') {
        await updateImported(tx, known.id, text)
        note('change-advisory', { ...about, ...detailsOfChange(textOf(known), textOf(text)) })
      } else if (held && known && imported.outcome === 'withdrawn') {
        await markWithdrawn(tx, held.id, known.advisoryId)
        note('withdraw', about)
      }
    }
    if (held && events.length > 0) {
      await renderBothDocuments(tx, held, baseUrl)
      await insertEvents(tx, by, events)
      await queueProjectCheck(tx, repositoryId)
    }
    return plan.map(({ imported }) => imported)
  })
}

/** Decides about the entries of one package, one after another. */
async function planFor(
  db: Queryable,
  { repositoryId, mayWithdraw, isDryRun }: OsvImport,
  packageName: string,
  entries: readonly OsvEntry[],
): Promise<Planned[]> {
  const advisories = await listKnownAdvisories(db, repositoryId, packageName)
  const pause = makePause()
  const plan: Planned[] = []
  for (const entry of entries) {
    await pause()
    const place =
      advisories?.findIndex((one) => one.osvId === entry.id || `x_${one.advisoryId}` === entry.id) ?? -1
    const known = advisories?.[place] ?? null
    const text = importedText(entry, known)
    const decision = decide(entry, known, advisories, mayWithdraw)
    if ('reason' in decision) {
      const imported = { ...skipped(entry, decision.reason), advisory: known?.advisoryId ?? null }
      plan.push({ imported, known, text })
      continue
    }
    const { outcome } = decision
    const isNew = outcome === 'added'
    const advisoryId = known?.advisoryId ?? makeAdvisoryId()
    // The next entry of the file sees what this one does.
    if (advisories && outcome !== 'unchanged')
      advisories[isNew ? advisories.length : place] = {
        ...text,
        id: known?.id ?? '',
        advisoryId,
        reportedAt: known?.reportedAt ?? new Date(),
        withdrawnAt: outcome === 'withdrawn' ? new Date() : null,
        sourceModifiedAt: text.modifiedAt,
      }
    const advisory = isNew && isDryRun ? null : advisoryId
    const imported = { id: entry.id, package: packageName, outcome, advisory, reason: null }
    plan.push({ imported, known, text })
  }
  return plan
}

/** What becomes of an entry, or why it is skipped. */
type Decision = { outcome: Exclude<ImportOutcome, 'skipped'> } | { reason: string }

/** Decides about an entry by the advisories of its package. These are null when the repository publishes no such package. */
function decide(
  entry: OsvEntry,
  known: KnownAdvisory | null,
  advisories: readonly KnownAdvisory[] | null,
  mayWithdraw: boolean,
): Decision {
  if (advisories === null) return { reason: 'the repository publishes no such package' }
  return known ? decideOnKnown(entry, known, mayWithdraw) : decideOnNew(entry, advisories)
}

/** Decides about an advisory that was imported before, or exported here. */
function decideOnKnown(entry: OsvEntry, known: KnownAdvisory, mayWithdraw: boolean): Decision {
  if (known.withdrawnAt !== null)
    return entry.isWithdrawn ? { outcome: 'unchanged' } : { reason: 'it was withdrawn here' }
  if (known.sourceModifiedAt !== null && entry.modifiedAt < known.sourceModifiedAt.getTime())
    return { reason: 'a newer form of it was imported before' }
  if (entry.isWithdrawn)
    return mayWithdraw ? { outcome: 'withdrawn' } : { reason: 'only an admin withdraws an advisory' }
  if (entry.problem !== null) return { reason: entry.problem }
  const [before, after] = [known, importedText(entry, known)].map((one) =>
    JSON.stringify([textOf(one), one.aliases]),
  )
  if (before === after) return { outcome: 'unchanged' }
  return mayWithdraw ? { outcome: 'changed' } : { reason: 'only an admin changes an advisory' }
}

/** Decides about an advisory that the package does not have. */
function decideOnNew(entry: OsvEntry, advisories: readonly KnownAdvisory[]): Decision {
  if (entry.isWithdrawn) return { reason: 'it is withdrawn' }
  if (entry.problem !== null) return { reason: entry.problem }
  const active = advisories.filter(({ withdrawnAt }) => withdrawnAt === null)
  const other = active.find(({ cve }) => cve !== null && cve === entry.cve)
  if (other) return { reason: `the advisory ${other.advisoryId} is about ${other.cve}` }
  if (active.length >= maxAdvisories)
    return { reason: `the package has ${maxAdvisories} advisories, which is the maximum` }
  return { outcome: 'added' }
}

function skipped({ id, packageName }: OsvEntry, reason: string): ImportedEntry {
  return { id, package: packageName, outcome: 'skipped', advisory: null, reason }
}

/** Returns what the entry makes of an advisory: one that was exported here keeps its id. */
function importedText(entry: OsvEntry, known: KnownAdvisory | null): ImportedAdvisory {
  const osvId = known ? known.osvId : entry.id
  return {
    ...textOf(entry),
    osvId,
    aliases: entry.aliases.filter((alias) => alias !== osvId),
    modifiedAt: new Date(entry.modifiedAt),
    publishedAt: entry.publishedAt === null ? null : new Date(entry.publishedAt),
  }
}

function textOf({ title, affectedVersions, cve, link, severity }: AdvisoryText): AdvisoryText {
  return { title, affectedVersions, cve, link, severity }
}
