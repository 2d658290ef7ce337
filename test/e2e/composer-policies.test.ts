import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { request as forward } from 'node:http'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { registryUrl } from '../../src/groups/repositories.ts'
import { aGroupMember, groupOf } from '../support/actors.ts'
import { aCaller, type Caller, callApi } from '../support/api-actors.ts'
import { aComposerProject, type ComposerProject, hasComposerClient } from '../support/composer-project.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'

const [port, tlsPort] = [await freePort(), await freePort()]
const certificate = fileURLToPath(new URL('../fixtures/loopback-tls.pem', import.meta.url))

/** Composer has policies since 2.10. Debian 12 has an older one, also in CI: put a newer one into PATH to run these tests. */
const hasPolicies =
  hasComposerClient &&
  isAtLeast210(
    execFileSync('composer', ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
  )

function isAtLeast210(text: string): boolean {
  const [, major = '', minor = ''] = /Composer version (\d+)\.(\d+)/.exec(text) ?? []
  return Number(major) > 2 || (Number(major) === 2 && Number(minor) >= 10)
}

describe.skipIf(!hasPolicies)('the real Composer and the rules of a group', () => {
  const baseUrl = `https://127.0.0.1:${tlsPort}`
  const t = useListeningApp(port, { BASE_URL: baseUrl })
  let caller: Caller
  let project: ComposerProject
  let group: { id: string; name: string }
  const proxy = createServer({}, (incoming, outgoing) => {
    const { method, url, headers } = incoming
    const sent = forward({ port, method, path: url, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(outgoing)
    })
    incoming.pipe(sent)
  })

  beforeAll(async () => {
    const pem = await readFile(certificate)
    proxy.setSecureContext({ key: pem, cert: pem })
    await once(proxy.listen(tlsPort, '127.0.0.1'), 'listening')
    caller = await aCaller(t, { scopes: ['registry-package:rw', 'group-manage:rw'] })
    group = await groupOf(t.db, caller.repository)
    await aGroupMember(t.db, caller.account, group, 'admin')
    project = await aComposerProject()
    await project.composer('config', '-g', 'repositories.packagist.org', 'false')
    await project.composer('config', '-g', 'cafile', certificate)
    await project.composer('config', '-g', `http-basic.127.0.0.1:${tlsPort}`, 'svc', caller.token)
  })
  afterAll(async () => {
    await project?.remove()
    proxy.close()
  })

  /** A project with packages of another repository, which svc has never seen. */
  async function useProject(required: Record<string, string> = {}): Promise<void> {
    await rm(join(project.folder, 'composer.lock'), { force: true })
    await project.forget('vendor')
    await project.write('composer.json', projectWith(required))
  }

  function projectWith(required: Record<string, string>): object {
    const versions = [
      'pub/evil 1.0.0',
      'pub/evil 2.0.0',
      ...['old', 'gpl', 'good', 'new'].map((name) => `pub/${name} 1.0.0`),
    ]
    const packages = versions.map((one) => {
      const [name, version] = one.split(' ')
      return { name, version, type: 'metapackage' }
    })
    const url = `${registryUrl(baseUrl, caller.repository.path)}policy/denied`
    return {
      name: 'my/project',
      version: '1.0.0',
      require: required,
      repositories: [{ type: 'package', package: packages }],
      config: { policy: { acme: { sources: [{ type: 'url', url }] } } },
    }
  }

  async function deny(kind: string, patterns: string[], reason: string): Promise<string> {
    const url = `/api/groups/${group.name}/policies`
    const added = await callApi(t, caller.token, 'POST', url, { kind, patterns, reason })
    return `${baseUrl}/${group.name}/-/policies/${added.json().id}`
  }

  it('chooses only versions that no rule denies, and says why', async () => {
    const page = await deny('packages', ['pub/evil:<2.0'], 'It steals passwords: use 2.0')
    await useProject()
    const refused = await project.composer('require', 'pub/evil:^1.0')
    expect(refused.code).not.toBe(0)
    expect(refused.output).toContain(`filtered by acme (see ${page}) reason: It steals passwords: use 2.0.`)
    expect((await project.composer('require', 'pub/evil')).output).toContain('Locking pub/evil (2.0.0)')
    await project.write('composer.json', projectWith({ 'pub/evil': '^1.0' }))
    expect((await project.composer('update')).output).toContain('It steals passwords: use 2.0')
  })

  it('installs what a lock file has, and its audit names it', async () => {
    await useProject({ 'pub/old': '*', 'pub/good': '*' })
    expect((await project.composer('update')).output).toContain('Locking pub/old (1.0.0)')
    await deny('packages', ['pub/old'], 'Nobody maintains it')
    for (const command of ['install', 'update']) expect((await project.composer(command)).code).toBe(0)
    const { code, output } = await project.composer('audit')
    expect(code).not.toBe(0)
    expect(output).toMatch(/pub\/old .*acme .*Nobody maintains it/)
  })

  it('refuses a licence that a lock file of the group has named, and what is not approved', async () => {
    const lock = { packages: [{ name: 'pub/gpl', version: '0.9.0', license: ['GPL-3.0-only'] }] }
    await callApi(t, caller.token, 'POST', `/api/groups/${group.name}/projects/shop/lock`, lock)
    await deny('licenses', ['GPL-3.0'], 'We ship closed source')
    await useProject()
    const copyleft = await project.composer('require', 'pub/gpl')
    expect(copyleft.output).toContain('reason: GPL-3.0-only: We ship closed source')
    await deny('unapproved', ['pub/good'], 'Ask the platform team')
    expect((await project.composer('require', 'pub/good')).code).toBe(0)
    expect((await project.composer('require', 'pub/new')).output).toContain('reason: Ask the platform team')
  })
})
