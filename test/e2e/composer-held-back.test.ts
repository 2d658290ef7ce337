import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aCaller, type Caller } from '../support/api-actors.ts'
import {
  aComposerProject,
  type ComposerProject,
  hasComposerClient,
  useRegistries,
} from '../support/composer-project.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const port = await freePort()

describe.skipIf(!hasComposerClient)('the real Composer and versions that are not offered yet', () => {
  const t = useListeningApp(port, upstreamsHere)
  const upstream = useUpstream()
  const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString()
  let project: ComposerProject
  let caller: Caller

  beforeAll(async () => {
    caller = await aCaller(t)
    const { call } = caller
    await call('POST', '/upstreams', { url: upstream.url, name: 'public', minimum_age_hours: 72 })
    project = await aComposerProject()
    await useRegistries(project, `http://127.0.0.1:${port}`, caller.token, caller.repository.path)
  })
  afterAll(() => project?.remove())

  const times = (output: string, text: string) => output.split(text).length - 1

  it('says until when a package is held back, each time, and installs it when an admin allows it', async () => {
    // The upstream sends no time, so the age counts from the first look.
    upstream.offer('held/all', [{ version: '1.0.0', 'published-time': undefined }])
    for (let i = 0; i < 2; i += 1) {
      const { code, output } = await project.composer('require', 'held/all')
      expect(code).not.toBe(0)
      expect(output).toMatch(
        /Warning from .*: This version of held\/all is held back until \d+ \w+ \d{4}, \d\d:\d\d UTC/,
      )
      expect(times(output, 'held back')).toBe(1)
      expect(output).toContain('1.0.0. An admin of the repository can allow it now.')
    }
    const allowed = await caller.call('POST', '/mirrored-packages/allow', { package: 'held/all' })
    expect(allowed.json()).toEqual({ allowed: ['1.0.0'] })
    const { code, output } = await project.composer('require', 'held/all')
    expect([code, output]).toEqual([0, expect.stringContaining('Installing held/all (1.0.0)')])
    expect(output).not.toContain('held back')
  })

  it('names a newer version that is held back, and installs the older one', async () => {
    upstream.offer('held/new', [{ version: '2.0.0', 'published-time': hoursAgo(1) }, '1.0.0'])
    const { code, output } = await project.composer('require', 'held/new')
    expect(code).toBe(0)
    expect(output).toMatch(/Info from .*: This version of held\/new is held back until .*: 2\.0\.0\./)
    expect(output).toContain('Installing held/new (1.0.0)')
  })

  it('says that a package waits for approval', async () => {
    await caller.call('PATCH', '/upstreams/public', { mode: 'approved' })
    upstream.offer('wanted/lib', ['1.0.0'])
    const { code, output } = await project.composer('require', 'wanted/lib')
    expect(code).not.toBe(0)
    expect(output).toContain(
      'wanted/lib waits for approval in this repository. An admin of the repository can approve it',
    )
    await caller.call('POST', '/mirrored-packages/approve', { packages: ['wanted/lib'] })
    expect((await project.composer('require', 'wanted/lib')).code).toBe(0)
  })
})
