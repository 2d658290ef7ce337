import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { builtInMigrations, migrate, readSchema } from '../../src/database/migrate.ts'
import { checksumOf, readChecksums } from '../../src/database/sql-file.ts'
import { useDatabase } from '../support/database.ts'
import { hasCommit, hasWholeHistory, listChangedTexts, unpackCommit } from '../support/previous-release.ts'
import { describeSchema } from '../support/schema.ts'

// A checkout without the history of git cannot be made complete here. The summary of a run names what it has skipped.
describe.skipIf(!(await hasWholeHistory()))('a migration (in the history of git)', () => {
  it('is accepted with each text that it has had', async () => {
    const { builtIn } = await readSchema(null)
    const amended = await readChecksums(join(builtInMigrations, 'amended.sha256'))
    const accepted = new Map(
      builtIn.map(({ name, checksum }) => [`migrations/${name}`, [checksum, amended.get(name)]]),
    )
    const texts = await listChangedTexts('migrations/0*.sql')
    const refused = texts.filter(
      ({ name, bytes }) => accepted.get(name)?.includes(checksumOf(bytes)) === false,
    )
    expect(texts.map(({ name }) => name)).toContain('migrations/0096_lost_permissions.sql')
    expect(refused.map(({ name }) => name)).toEqual([])
  })
})

/** Commits that had former texts. Together they had all of them. */
const commits = [
  ['331c695cb93aff15845608ee26238b3946960171', ['0067', '0096']],
  ['34c662d3776439c4d0fad9718aceeba79124243c', ['0096', '0111', '0120']],
  ['f544308f895ef1c8ed9d8da75ee4e93b2facf040', ['0220', '0242']],
  ['4f6abc3a9b43151e96351c19027a94041c06a565', ['0330', '0335']],
] as const

for (const [commit, numbers] of commits) {
  describe.skipIf(!(await hasCommit(commit)))(
    `a database with a former text of ${numbers.join(', ')} (in the history of git)`,
    () => {
      const database = useDatabase('template1')
      const current = useDatabase()

      it('goes on, and then equals a new one', async () => {
        const folder = await mkdtemp(join(tmpdir(), 'svc-test-amended-'))
        await unpackCommit(commit, folder, 'migrations')
        const applied = await migrate(database.db, null, join(folder, 'migrations'))
        await rm(folder, { recursive: true })
        expect(applied.map((name) => name.slice(0, 4))).toEqual(expect.arrayContaining([...numbers]))
        await migrate(database.db, null)
        expect(await describeSchema(database.db)).toEqual(await describeSchema(current.db))
      })
    },
  )
}
