import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { releaseStage } from '../../src/packages/stages/release.ts'
import { findStage } from '../../src/packages/tables/staged-versions.ts'
import fragments from '../fixtures/composer-manifests.json' with { type: 'json' }
import { aMember, signIn } from '../support/actors.ts'
import {
  aComposerProject,
  type ComposerProject,
  hasComposerClient,
  requestsIn,
  useRegistries,
} from '../support/composer-project.ts'
import { revokePersonalTokens } from '../support/last-use-rows.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { aPublisher, type Publisher } from '../support/registry-actors.ts'
import { aZip } from '../support/zip.ts'

const port = await freePort()
const baseUrl = `http://127.0.0.1:${port}`

describe.skipIf(!hasComposerClient)('the real Composer (needs composer, php, unzip and curl)', () => {
  const t = useListeningApp(port)
  const projects: ComposerProject[] = []
  afterEach(async () => {
    for (const project of projects.splice(0)) await project.remove()
  })

  async function aProject(publisher: Publisher, ...more: Publisher[]): Promise<ComposerProject> {
    const project = await aComposerProject()
    projects.push(project)
    const paths = [publisher, ...more].map(({ repository }) => repository.path)
    await useRegistries(project, baseUrl, publisher.token, ...paths)
    return project
  }

  /** Returns the requests that the publisher's registry received during an act, such as `200 packages.json`. */
  async function asked({ path }: Publisher, act: () => Promise<unknown>): Promise<string[]> {
    const before = requestsIn(t.log()).length
    await act()
    return requestsIn(t.log())
      .slice(before)
      .filter((request) => request.includes(path))
      .map((request) => request.replace(/ (GET|POST) \/.*?\/-\/packages\//, ' '))
      .toSorted()
  }

  async function run({ composer }: ComposerProject, ...words: string[]): Promise<string> {
    const { code, output } = await composer(...words)
    expect([code, output]).toEqual([0, output])
    return output
  }

  /** Lets a project require packages. */
  async function requireAll(project: ComposerProject, names: string[], constraint: string): Promise<void> {
    const require = Object.fromEntries(names.map((name) => [name, constraint]))
    await project.write('composer.json', { ...JSON.parse(await project.read('composer.json')), require })
  }

  /** Returns the versions in the lock file, by package. */
  async function lockedVersions(project: ComposerProject): Promise<Record<string, string>> {
    const { packages } = JSON.parse(await project.read('composer.lock')) as {
      packages: { name: string; version: string }[]
    }
    return Object.fromEntries(packages.map(({ name, version }) => [name, version]))
  }

  it('installs a staged version with the token of a developer, and from the same lock file after its release', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    await publisher.push('1.0.0', { name: 'acme/other' })
    const manifest = { require: { 'acme/other': '^1.0' } }
    const { id, repository_url: url } = (await publisher.stage('2.0.0', { manifest })).json()
    const project = await aProject(publisher)
    await run(project, 'config', 'repositories.svc0', 'composer', url)
    await run(project, 'require', 'acme/lib:^2.0', '--no-progress')
    const lock = JSON.parse(await project.read('composer.lock')) as {
      packages: { name: string; version: string; dist: { url: string } }[]
    }
    expect(lock.packages.map(({ name, version }) => `${name} ${version}`)).toEqual([
      'acme/lib 2.0.0',
      'acme/other 1.0.0',
    ])
    expect(lock.packages[0]?.dist.url).not.toContain('/stages/')
    const stage = await findStage(t.db, id)
    if (!stage) throw new Error('no stage')
    await releaseStage(t.db, { stage, by: operator, baseUrl })
    await project.forget('cache', 'vendor')
    await useRegistries(project, baseUrl, publisher.token, publisher.repository.path)
    await project.write('composer.lock', JSON.stringify(lock))
    await run(project, 'install', '--no-progress')
  }, 120_000)

  it('archives, curl uploads, Composer requires, PHP runs (SPEC 4.4, 4.5, 4.6)', async () => {
    const publisher = await aPublisher(t)
    const library = await aProject(publisher)
    await library.write('composer.json', {
      name: 'acme/hello',
      autoload: { 'psr-4': { 'Acme\\': 'src/' } },
      archive: { exclude: ['auth.json', 'composer.lock', 'vendor'] },
    })
    await mkdir(join(library.folder, 'src'))
    await library.write('src/Hello.php', '<?php namespace Acme; class Hello { const WORLD = "hello world"; }')
    await library.write('auth.json', '{}')
    await run(library, 'archive', '--format=zip', '--file=package')
    const url = `${baseUrl}${publisher.path}upload/acme/hello/1.0.0`
    const words = ['-sS', '-u', `svc:${publisher.token}`, '-T', 'package.zip', url]
    const { stdout } = await promisify(execFile)('curl', words, { cwd: library.folder })
    expect(JSON.parse(stdout)).toMatchObject({ errcode: 0, name: 'acme/hello', version: '1.0.0' })

    const project = await aProject(publisher)
    await run(project, 'require', 'acme/hello:^1.0')
    expect(await project.php('require "vendor/autoload.php"; echo Acme\\Hello::WORLD;')).toBe('hello world')

    const cookie = await signIn(t.app, publisher.account)
    const setUp = () => t.app.inject({ url: `/${publisher.repository.path}/-/setup`, headers: { cookie } })
    const textOfSetUp = async () => (await setUp()).body.replaceAll(/<.*?>/gs, '')
    await expect.poll(textOfSetUp).toContain('Installed acme/hello 1.0.0 today.')
    expect(await textOfSetUp()).toContain('Published acme/hello 1.0.0 on ')

    const warm = await asked(publisher, () => run(project, 'update'))
    expect(warm).toEqual(['304 p2/acme/hello.json', '304 packages.json'])

    await project.forget('cache', 'vendor')
    const cold = await asked(publisher, () => run(project, 'install'))
    expect(cold).toEqual([
      expect.stringMatching(/^200 dist\/acme\/hello\/1.0.0\/[0-9a-f]{64}.zip$/),
      '200 downloads',
    ])
    expect(await project.php('require "vendor/autoload.php"; echo Acme\\Hello::WORLD;')).toBe('hello world')
    await expect
      .poll(async () => (await publisher.ask('search.json?q=hello')).json().results[0].downloads)
      .toBe(2)
  })

  it('works with versions that it cannot parse, and can install them (COMPOSER G2)', async () => {
    const publisher = await aPublisher(t)
    for (const version of [
      '1.0.0',
      '1.1.0-foo',
      '100000.0.0',
      '1.0.1-0.3.7',
      '1.2.0-beta.1',
      '1.0.2+build',
    ]) {
      expect((await publisher.push(version)).statusCode).toBe(201)
    }
    const project = await aProject(publisher)
    expect(await run(project, 'require', 'acme/lib:^1.0')).toContain('Locking acme/lib (1.0.2+build)')
    for (const version of ['dev-1.1.0-foo', 'dev-100000.0.0', 'dev-1.0.1-0.3.7', '1.2.0-beta.1']) {
      expect(await run(project, 'require', `acme/lib:${version}`)).toContain(`=> ${version})`)
    }
    await project.forget('cache', 'vendor')
    await run(project, 'install')
  })

  it('works with every value that a composer.json may have (COMPOSER G5)', async () => {
    const publisher = await aPublisher(t)
    const accepted: string[] = []
    for (const { case: name, fragment } of fragments) {
      const packageName = `acme/${name.replaceAll('_', '-').toLowerCase()}`
      const response = await publisher.push('1.0.0', { name: packageName, manifest: fragment })
      expect([name, response.statusCode]).toEqual([name, expect.toBeOneOf([201, 400])])
      if (response.statusCode === 201) accepted.push(packageName)
    }
    expect(accepted.length).toBeGreaterThan(10)
    // One of the values requires this package.
    await publisher.push('1.0.0', { name: 'acme/lib' })
    const project = await aProject(publisher)
    await requireAll(project, accepted, '*')
    await run(project, 'update', '--no-install', '--ignore-platform-reqs')
    expect(Object.keys(await lockedVersions(project))).toEqual([...accepted, 'acme/lib'].toSorted())
  })

  it('unpacks an archive with everything in one folder, as the push plugin makes it (COMPOSER G6)', async () => {
    const publisher = await aPublisher(t)
    const payload = aZip({
      'lib-1.0.0/composer.json': '{"name":"acme/lib","autoload":{"psr-4":{"Acme\\\\":"src/"}}}',
      'lib-1.0.0/src/Lib.php': '<?php namespace Acme; class Lib { const NAME = "folded"; }',
    })
    expect((await publisher.push('1.0.0', { payload })).statusCode).toBe(201)
    const project = await aProject(publisher)
    await run(project, 'require', 'acme/lib:^1.0')
    expect(await project.php('require "vendor/autoload.php"; echo Acme\\Lib::NAME;')).toBe('folded')
  })

  it('shows our warning to a wrong and to a revoked token (COMPOSER G8)', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const project = await aProject(publisher)
    await run(project, 'require', 'acme/lib:^1.0')
    await revokePersonalTokens(t.db, publisher.account)
    await project.forget('cache', 'vendor')
    for (const command of ['update', 'install']) {
      const { code, output } = await project.composer(command)
      expect(code).not.toBe(0)
      expect(output).toContain('unknown, expired or revoked')
    }
  })

  it('uses two registries of one host with one token, and is refused a third (COMPOSER G8)', async () => {
    const one = await aPublisher(t)
    const two = await aPublisher(t)
    const three = await aPublisher(t)
    await one.push('1.0.0', { name: 'acme/one' })
    await two.push('2.0.0', { name: 'acme/two' })
    await aMember(t.db, one.account, two.repository, 'guest')
    const project = await aProject(one, two)
    await run(project, 'require', 'acme/one', 'acme/two')
    const stranger = await aProject(one, three)
    const { code, output } = await stranger.composer('require', 'acme/one')
    expect(code).not.toBe(0)
    expect(output).toContain('There is no repository at this URL')
  })

  it('searches, shows and reports abandoned packages (COMPOSER G9)', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0', { manifest: { description: 'does a thing' } })
    await publisher.push('1.1.0', { manifest: { description: 'does a thing' } })
    const project = await aProject(publisher)
    expect(await run(project, 'search', 'thing')).toMatch(/acme\/lib\s+does a thing/)
    expect(await run(project, 'search', '-N', 'lib')).toContain('acme/lib')
    expect(await run(project, 'show', '-a', 'acme/lib')).toMatch(/versions : (\* )?1\.1\.0, 1\.0\.0/)
    await run(project, 'require', 'acme/lib:1.0.0')
    expect(await run(project, 'outdated')).toMatch(
      /acme\/lib\s+1\.0\.0\s+! 1\.1\.0|acme\/lib\s+1\.0\.0\s+\S?\s*1\.1\.0/,
    )
  })

  it('requests only packages.json from an empty registry (COMPOSER G10)', async () => {
    const publisher = await aPublisher(t)
    const other = await aPublisher(t)
    await other.push('1.0.0')
    await aMember(t.db, publisher.account, other.repository, 'guest')
    const project = await aProject(publisher, other)
    const requests = await asked(publisher, () => run(project, 'require', 'acme/lib'))
    expect([...new Set(requests)]).toEqual(['200 packages.json'])
  })

  it('updates thirty packages of three versions cold, warm and from the lock', async () => {
    const publisher = await aPublisher(t)
    // Composer opens twelve connections at the same time.
    const names = Array.from({ length: 30 }, (_, i) => `acme/p${i}`)
    for (const name of names) {
      await Promise.all(
        ['1.2.0', '1.9.0', '1.10.0'].map((version, i) =>
          publisher.push(version, { name, manifest: { type: `t${i}` } }),
        ),
      )
    }
    const project = await aProject(publisher)
    await requireAll(project, names, '^1.0')
    const cold = await asked(publisher, () => run(project, 'update', '--no-install'))
    expect(cold).toEqual(['200 packages.json', ...names.map((name) => `200 p2/${name}.json`)].toSorted())
    expect(await lockedVersions(project)).toEqual(Object.fromEntries(names.map((name) => [name, '1.10.0'])))
    const warm = await asked(publisher, () => run(project, 'update', '--no-install'))
    expect(warm.every((request) => request.startsWith('304 '))).toBe(true)
    expect(warm).toHaveLength(31)
    const installed = await asked(publisher, () => run(project, 'install'))
    expect(installed.filter((request) => request.startsWith('200 dist/'))).toHaveLength(30)
    expect(installed).toHaveLength(31)
  })
})
