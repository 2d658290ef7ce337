import { Command } from 'commander'
import { type AccountCounts, countAccounts } from '../accounts/accounts.ts'
import { formatCount, formatSize } from '../domain/formats.ts'
import { countGroups } from '../groups/groups.ts'
import { countApplications } from '../oauth/applications.ts'
import { readSystemState, type SystemState } from '../web/server/system-state.ts'
import { type JsonOptions, jsonOption } from './options.ts'
import { printResult, withDatabase } from './run.ts'

/** `svc system`: prints what `/admin` and `/admin/system` show. */
export function systemCommand(version: string): Command {
  return new Command('system')
    .description('Show the version, and the state of database, archive store, background jobs and disk.')
    .addOption(jsonOption())
    .action(async (options: JsonOptions) => {
      const shown = await withDatabase(async (db, config) => {
        const state = await readSystemState(db, config)
        const { database, isEmbedded, store, jobs, collectedAt, backedUpAt, disk } = state
        return {
          version,
          node: process.version,
          database: {
            id: database.id,
            version: database.version,
            embedded: isEmbedded,
            bytes: database.bytes,
            connections: database.connections,
            max_connections: database.maxConnections,
            migration: database.migration,
          },
          store: { ...describeStore(store), collected_at: collectedAt },
          backed_up_at: backedUpAt,
          disk: disk && {
            directory: disk.directory,
            free_bytes: disk.freeBytes,
            all_bytes: disk.allBytes,
          },
          accounts: describeAccounts(await countAccounts(db)),
          applications: await countApplications(db),
          ...(await countGroups(db)),
          jobs: jobs.map(({ lastError, succeededAt, ...job }) => ({
            ...job,
            last_error: lastError,
            succeeded_at: succeededAt === null ? null : new Date(succeededAt * 1000),
          })),
        }
      })
      const { database, store, disk, accounts, jobs } = shown
      const failed = jobs.filter((job) => job.failed > 0).map((job) => `${job.failed} ${job.name}`)
      const lines = [
        `svc ${version}, Node.js ${process.version}`,
        `Database    PostgreSQL ${database.version}${database.embedded ? ', embedded' : ''}, ${formatSize(database.bytes)}, ${database.connections} of ${database.max_connections} connections, ${database.migration}`,
        `Archives    ${store.archives} in ${store.place}, ${formatSize(store.bytes)}, last collection: ${store.collected_at?.toISOString() ?? 'never'}, all checked since: ${store.checked_since?.toISOString() ?? 'never'}`,
        ...(store.unclaimed === null
          ? []
          : [`            no claim on them: ${store.unclaimed}. Run svc archives claim`]),
        ...(store.problems === 0
          ? []
          : [`            ${store.problems} damaged or missing. Run svc verify-archives --repair`]),
        `Backup      last one by svc backup: ${shown.backed_up_at?.toISOString() ?? 'never'}`,
        `Disk        ${disk ? `${formatSize(disk.free_bytes)} of ${formatSize(disk.all_bytes)} free in ${disk.directory}` : 'unknown'}`,
        `Accounts    ${accounts.all}, ${accounts.disabled} disabled, ${formatCount(accounts.administrators, 'site administrator')}, ${accounts.without_second_factor} without a second factor`,
        `Registry    ${formatCount(shown.groups, 'group')}, ${formatCount(shown.repositories, 'repository', 'repositories')}, ${formatCount(shown.packages, 'package')}`,
        `Jobs        ${jobs.reduce((sum, { queued }) => sum + queued, 0)} queued; failed: ${failed.join(', ') || 'none'}`,
      ]
      printResult(options, shown, lines.join('\n'))
    })
}

function describeAccounts({ all, disabled, administrator, ...counts }: AccountCounts) {
  return {
    all,
    disabled,
    administrators: administrator,
    without_second_factor: counts['without-second-factor'],
  }
}

function describeStore({ checkedSince, ...store }: SystemState['store']) {
  return { ...store, checked_since: checkedSince }
}
