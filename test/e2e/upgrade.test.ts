import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { hasPreviousRelease } from '../support/previous-release.ts'
import { type Upgrade, upgradeUnderLoad } from '../support/upgrade.ts'

/** As much as a minute allows. `npm run bench -- upgrade` takes larger sizes. */
const sizes = { packages: 2000, versions: 20_000, repositories: 1000, tokenPairs: 200_000 }
// A copy without the history of git cannot be made complete here. The end of a run names what it has skipped.
describe.skipIf(!(await hasPreviousRelease()))(
  'an upgrade of the previous release (in the history of git) under load',
  () => {
    const database = useDatabase('template1')
    let folder: string
    let upgrade: Upgrade

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'svc-test-upgrade-'))
      upgrade = await upgradeUnderLoad(database, folder, sizes)
    }, 600_000)
    afterAll(() => rm(folder, { recursive: true }))

    it('fails no request of the previous release, and none of this one', () => {
      const { during, after } = upgrade
      expect([during, ...after].flatMap(({ failures }) => failures)).toEqual([])
      const kinds = during.durations.map(({ what }) => what)
      expect([...new Set(kinds)].toSorted()).toEqual(['check', 'page', 'pull', 'push', 'refresh'])
    })

    it('lets no request wait for a lock', () => {
      const { before, during, after, slowestProbeMs } = upgrade
      // Requests that waited for the locks of a migration took 3 to 8 seconds. Other work on the machine delays some of them
      // for a second or more, also before the upgrade, and also those that need no lock.
      const limit = Math.max(3000, 4 * before.slowestMs, 4 * slowestProbeMs)
      const slow = [during, ...after].flatMap(({ durations }) =>
        durations.filter(({ milliseconds }) => milliseconds > limit),
      )
      expect(slow).toEqual([])
    })

    it('applies what svc migrate --plan says', () => {
      expect(upgrade.applied.length).toBeGreaterThan(0)
      expect(upgrade.applied.toSorted()).toEqual(upgrade.planned.toSorted())
    })

    it('keeps the functions of the previous release', () => {
      expect(upgrade.lostFunctions).toEqual([])
    })
  },
)
