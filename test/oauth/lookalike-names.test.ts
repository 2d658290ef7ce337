import { mkdtempSync, rmSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { changeApplication, registerApplication } from '../../src/oauth/application-changes.ts'
import { listApplicationNames } from '../../src/oauth/applications.ts'
import { useApp } from '../support/app.ts'
import { anApplication, pixel } from '../support/oauth-actors.ts'

const migrations = mkdtempSync(join(tmpdir(), 'svc-migrations-'))
afterAll(() => rmSync(migrations, { recursive: true }))

describe.each([
  ['in the database only', null],
  ['with a migration for each', migrations],
])('applications that get their names at the same time, %s', (_where, folder) => {
  const t = useApp(folder === null ? {} : { MIGRATIONS_DIR: folder })

  it('never get names that look alike', async () => {
    const others = await Promise.all([1, 2, 3].map((n) => anApplication(t.db, { name: `Other ${n}` })))
    const form = {
      description: null,
      website: 'https://app.example.com',
      redirectUri: 'https://app.example.com/callback',
      exactRedirect: false,
      isPublic: false,
      isDevice: false,
      isResourceServer: false,
      scopes: ['account-profile:r' as const],
      resourceScope: 'all' as const,
      logo: pixel,
      status: 'approved' as const,
    }
    const register = (name: string) => registerApplication(t.db, t.config, operator, { ...form, name })
    const rename = (name: string, n: number) =>
      changeApplication(t.db, t.config, operator, others[n]?.clientId ?? '', { name })
    const ended = await Promise.allSettled([
      ...['Build Bot', 'build-bot', 'Bui1d Bot', 'BUILD BOT', 'Buíld Bot'].map(register),
      ...['Build. Bot', 'Build B0t', 'BuildBot'].map(rename),
    ])
    const refusals = ended.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
    expect(refusals).toHaveLength(7)
    for (const refusal of refusals)
      expect(refusal).toContain('People could take this name for that of the application')
    const names = (await listApplicationNames(t.db)).map(({ name }) => name)
    expect(names.filter((name) => /^b/i.test(name))).toHaveLength(1)
    expect(await readdir(migrations)).toHaveLength(folder === null ? 0 : 1)
  })
})
