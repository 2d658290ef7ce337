import pg from 'pg'
import { startTestPostgres } from '../test/support/postgres.ts'
import { type Upgrade, upgradeUnderLoad } from '../test/support/upgrade.ts'
import type { Sizes } from './large-data.ts'
import { figure, table } from './table.ts'

/**
 * `npm run bench -- upgrade` upgrades the previous release under load, as test/e2e/upgrade.test.ts does, on a large
 * database. `--packages=`, `--versions=`, `--repositories=` and `--token-pairs=` set the sizes.
 */
export async function measureUpgrade(folder: string, sizes: Sizes): Promise<string> {
  const postgres = await startTestPostgres()
  const db = new pg.Pool({ ...postgres.connection, max: 40, pipeline: true })
  try {
    const { before, during, after, seconds } = await upgradeUnderLoad(
      { db, connection: postgres.connection },
      folder,
      sizes,
    )
    const row = (name: string, count: Upgrade['during']) => [
      name,
      figure(count.durations.length),
      `${count.failures.length}`,
      figure(count.slowestMs),
      `${count.durations.filter(({ milliseconds }) => milliseconds > 1000).length}`,
    ]
    const sized = Object.entries(sizes).map(([name, size]) => `${name} ${size.toLocaleString('en')}`)
    return [
      `Upgraded in ${figure(seconds)} s: ${sized.join(', ')}.`,
      table(
        ['upgrade', 'requests', 'failed', 'slowest ms', 'above 1 s'],
        [
          row('before', before),
          row('while this release migrates', during),
          ...after.map((count, i) => row(i === 0 ? 'after, previous release' : 'after, this release', count)),
        ],
      ),
      ...new Set([during, ...after].flatMap(({ failures }) => failures)),
    ].join('\n\n')
  } finally {
    await db.end()
    await postgres.stop()
  }
}
