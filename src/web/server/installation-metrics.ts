import { Gauge, type Registry } from 'prom-client'
import { countStoredArchives } from '../../archives/tables/stored-archives.ts'
import type { Queryable } from '../../database/database.ts'
import { findDatabaseBytes, findMaintenance } from '../../database/installation.ts'
import { countJobs } from '../../jobs/job-rows.ts'
import { inTimeForScrape } from './serve-metrics.ts'

/** For how long the sizes of database and archives count, because measuring them takes longer than the rest. */
const sizeMilliseconds = 60_000

/**
 * Adds metrics of the installation, which all processes share: jobs, sizes, archives and maintenance. They are missing
 * when the database does not respond.
 */
export function measureInstallation(registry: Registry, db: Queryable): void {
  const readJobs = remember(() => countJobs(db), 0)
  const readMaintenance = remember(() => findMaintenance(db), 0)
  const readArchives = remember(() => countStoredArchives(db), sizeMilliseconds)
  const readDatabaseBytes = remember(() => findDatabaseBytes(db), sizeMilliseconds)

  /** Adds a gauge. `collect` gets null when the database does not respond. */
  function gauge<Read>(
    name: string,
    { help, labels = [] }: { help: string; labels?: string[] },
    read: () => Promise<Read | null>,
    collect: (found: Read, set: (labels: Record<string, string>, value: number) => void) => void,
  ): void {
    const measured = new Gauge({
      name,
      help,
      labelNames: labels,
      registers: [registry],
      async collect() {
        const found = await read()
        measured.reset()
        if (found !== null) collect(found, (of, value) => measured.set(of, value))
        // Without labels, a reset leaves the value 0.
        else if (labels.length === 0) measured.remove()
      },
    })
  }

  gauge(
    'svc_jobs',
    {
      help: 'Background jobs of all processes by name and state: queued, active, or failed after the last attempt.',
      labels: ['job', 'state'],
    },
    readJobs,
    (jobs, set) => {
      for (const { name: job, queued, active, failed } of jobs) {
        set({ job, state: 'queued' }, queued)
        set({ job, state: 'active' }, active)
        set({ job, state: 'failed' }, failed)
      }
    },
  )
  gauge(
    'svc_job_last_success_timestamp_seconds',
    { help: 'When a background job of this name last succeeded in any process.', labels: ['job'] },
    readJobs,
    (jobs, set) => {
      for (const { name: job, succeededAt } of jobs) if (succeededAt !== null) set({ job }, succeededAt)
    },
  )
  gauge(
    'svc_maintenance_last_success_timestamp_seconds',
    {
      help: 'When the last backup of svc backup and the last garbage collection ended. Missing when there was none.',
      labels: ['work'],
    },
    readMaintenance,
    (ended, set) => {
      for (const [work, endedAt] of ended) set({ work }, endedAt.getTime() / 1000)
    },
  )
  gauge('svc_database_bytes', { help: 'The size of the database.' }, readDatabaseBytes, (bytes, set) =>
    set({}, bytes),
  )
  gauge('svc_archives', { help: 'The number of stored archives.' }, readArchives, ({ archives }, set) =>
    set({}, archives),
  )
  gauge('svc_archive_bytes', { help: 'The bytes of stored archives.' }, readArchives, ({ bytes }, set) =>
    set({}, bytes),
  )
  gauge(
    'svc_archive_problems',
    {
      help: 'Stored archives that the last check of each found missing, damaged, or with a wrong size.',
      labels: ['problem'],
    },
    readArchives,
    ({ problems }, set) => {
      for (const [problem, count] of Object.entries(problems)) set({ problem }, count)
    },
  )
}

/**
 * Returns a function that reads at most once in the given time. Simultaneous calls share one read. Returns null when the
 * database does not respond.
 */
function remember<Read>(read: () => Promise<Read>, milliseconds: number): () => Promise<Read | null> {
  let latest: { reading: Promise<Read | null>; until: number } | undefined
  return () => {
    if (latest && performance.now() < latest.until) return latest.reading
    const reading = inTimeForScrape(read())
    const own = { reading, until: Number.POSITIVE_INFINITY }
    latest = own
    void reading.then((found) => {
      own.until = found === null ? 0 : performance.now() + milliseconds
    })
    return reading
  }
}
