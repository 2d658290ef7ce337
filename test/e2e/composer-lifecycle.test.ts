import { afterEach, describe, expect, it } from 'vitest'
import { aMember } from '../support/actors.ts'
import { aCaller, type Caller } from '../support/api-actors.ts'
import {
  aComposerProject,
  type ComposerProject,
  hasComposerClient,
  requestsIn,
  useRegistries,
} from '../support/composer-project.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'

const port = await freePort()
const lib = '/packages/acme/lib'

describe.skipIf(!hasComposerClient)('the lifecycle, as the real Composer sees it', () => {
  const t = useListeningApp(port)
  const projects: ComposerProject[] = []
  afterEach(async () => {
    for (const project of projects.splice(0)) await project.remove()
  })

  /** A project that may read the registries of all callers. Composer asks the first one first. */
  async function aProject(caller: Caller, ...more: Caller[]): Promise<ComposerProject> {
    for (const { repository } of more) {
      await aMember(t.db, caller.account, repository, 'guest')
    }
    const project = await aComposerProject()
    projects.push(project)
    // `composer config` puts each new repository before the existing ones.
    const paths = [...more, caller].map(({ repository }) => repository.path)
    await useRegistries(project, `http://127.0.0.1:${port}`, caller.token, ...paths)
    return project
  }

  async function run({ composer }: ComposerProject, ...words: string[]): Promise<string> {
    const { code, output } = await composer(...words)
    expect([code, output]).toEqual([0, output])
    return output
  }

  it('never installs a package from another repository after its name was published here (COMPOSER G7)', async () => {
    const mine = await aCaller(t)
    const others = await aCaller(t)
    await mine.push('1.0.0')
    await others.push('9.0.0')
    const project = await aProject(mine, others)
    await run(project, 'require', 'acme/lib:>=1.0')
    await mine.call('DELETE', `${lib}/1.0.0`)
    const { code, output } = await project.composer('update')
    expect([code === 0, output]).toEqual([false, expect.not.stringContaining('9.0.0')])
    expect(await project.read('composer.lock')).toContain('"version": "1.0.0"')

    // The lock file can still be installed, with an empty cache.
    await project.forget('cache', 'vendor')
    expect(await run(project, 'install')).toContain('Installing acme/lib (1.0.0)')
    await mine.call('POST', `${lib}/1.0.0/restore`)
    expect(await run(project, 'update')).toContain('Nothing to modify in lock file')
    await mine.call('DELETE', `${lib}/1.0.0?purge=true`)
    await project.forget('cache', 'vendor')
    expect((await project.composer('install')).code).not.toBe(0)
  })

  it('installs from a lock file and an unchanged project after the repository was renamed', async () => {
    const caller = await aCaller(t)
    await caller.push('1.0.0')
    const project = await aProject(caller)
    await run(project, 'require', 'acme/lib')
    const oldPath = caller.repository.path
    const renamed = await caller.call('PATCH', '', { name: 'renamed' })
    expect(renamed.json().path).toBe(`${oldPath.split('/')[0]}/renamed`)

    // The lock file has archive URLs with the old name.
    expect(await project.read('composer.lock')).toContain(`/${oldPath}/-/packages/dist/`)
    await project.forget('cache', 'vendor')
    expect(await run(project, 'install')).toContain('Installing acme/lib (1.0.0)')
    // The project still names the old URL of the registry.
    await caller.push('1.1.0')
    await project.forget('cache')
    expect(await run(project, 'update')).toContain('Upgrading acme/lib (1.0.0 => 1.1.0)')
  })

  it('warns of an abandoned package, and names its replacement (COMPOSER G9)', async () => {
    const caller = await aCaller(t)
    await caller.push('1.0.0')
    await caller.call('PATCH', lib, { abandoned: true, replacement: 'acme/better' })
    const project = await aProject(caller)
    expect(await run(project, 'require', 'acme/lib')).toContain(
      'Package acme/lib is abandoned, you should avoid using it. Use acme/better instead.',
    )
    await caller.call('PATCH', lib, { abandoned: false })
    await project.forget('cache', 'vendor')
    expect(await run(project, 'update')).not.toContain('abandoned')
  })

  it('audits by the advisories of the registry (COMPOSER A8)', async () => {
    const caller = await aCaller(t)
    for (const version of ['1.0.0', '1.1.0']) await caller.push(version)
    await caller.push('1.0.0', { name: 'acme/clean' })
    const project = await aProject(caller)
    await run(project, 'require', 'acme/lib:1.0.0', 'acme/clean')
    expect(await run(project, 'audit')).toContain('No security vulnerability advisories found')
    const advisory = { title: 'It leaks', affected_versions: '<1.1', cve: 'CVE-2026-12345', severity: 'high' }
    const { advisory_id } = (await caller.call('POST', `${lib}/advisories`, advisory)).json()
    const found = await project.composer('audit')
    expect(found.code).not.toBe(0)
    for (const text of ['It leaks', 'CVE-2026-12345', 'acme/lib']) expect(found.output).toContain(text)
    expect(await run(project, 'require', 'acme/lib:1.1.0')).not.toContain('It leaks')
    expect(await run(project, 'audit')).toContain('No security vulnerability advisories found')
    await caller.call('DELETE', `${lib}/advisories/${advisory_id}`)
  })

  it('is not offered a version in quarantine, and is again once it is lifted', async () => {
    const caller = await aCaller(t)
    for (const version of ['1.0.0', '1.1.0']) await caller.push(version)
    await caller.call('POST', `${lib}/1.1.0/quarantine`, { reason: 'steals passwords' })
    const project = await aProject(caller)
    expect(await run(project, 'require', 'acme/lib:^1.0')).toContain('Locking acme/lib (1.0.0)')
    expect((await project.composer('require', 'acme/lib:1.1.0')).code).not.toBe(0)
    await caller.call('DELETE', `${lib}/1.1.0/quarantine`)
    expect(await run(project, 'update')).toContain('Upgrading acme/lib (1.0.0 => 1.1.0)')
  })

  it('does not install a version in quarantine from a lock file, and prints the reason', async () => {
    const caller = await aCaller(t)
    for (const version of ['1.0.0', '1.1.0']) await caller.push(version)
    const project = await aProject(caller)
    await run(project, 'require', 'acme/lib:^1.0')
    await caller.call('POST', `${lib}/1.1.0/quarantine`, { reason: 'steals passwords' })
    await project.forget('cache', 'vendor')
    const { code, output } = await project.composer('install')
    expect([code === 0, output]).toEqual([
      false,
      expect.stringContaining('acme/lib 1.1.0 is in quarantine and cannot be installed: steals passwords'),
    ])
    // Composer does not retry: it would get the same response.
    const archives = requestsIn(t.log()).filter((request) => request.includes('/dist/acme/lib/1.1.0/'))
    expect(archives.filter((request) => request.startsWith('410'))).toHaveLength(1)
    expect(await run(project, 'update')).toContain('Downgrading acme/lib (1.1.0 => 1.0.0)')
  })
})
