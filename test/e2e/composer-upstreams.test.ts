import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { enqueue } from '../../src/jobs/job.ts'
import { followFeeds } from '../../src/upstreams/follow-feeds.ts'
import { aCaller, type Caller, callApi } from '../support/api-actors.ts'
import {
  aComposerProject,
  type ComposerProject,
  hasComposerClient,
  useRegistries,
} from '../support/composer-project.ts'
import { useListeningApp } from '../support/listening.ts'
import { hasNginx, type NginxUpstream, startNginxUpstream } from '../support/nginx-upstream.ts'
import { databaseUrl, freePort, type Server, startServer, stopServer } from '../support/program.ts'
import { upstreamsHere } from '../support/upstream.ts'
import { ageDocuments, ageFeedChecks, setFollowedHours, upstreamRows } from '../support/upstream-rows.ts'
import { aZip } from '../support/zip.ts'

const port = await freePort()
const otherPort = await freePort()
const baseUrl = `http://127.0.0.1:${port}`
const folder = await mkdtemp(join(tmpdir(), 'svc-test-upstreams-'))
const environment = { ...upstreamsHere, UPSTREAM_AUTH_FILE: join(folder, 'auth.json') }
await writeFile(environment.UPSTREAM_AUTH_FILE, '{}')

/** An advisory of the upstream. */
const advisory = {
  advisoryId: 'PKSA-nginx',
  packageName: 'psr/log',
  affectedVersions: '>=2.0,<2.1',
  title: 'Logs too much',
  cve: 'CVE-2026-1',
  link: 'https://example.com/advisory',
  reportedAt: '2026-01-01 00:00:00',
  sources: [{ name: 'nginx', remoteId: 'nginx/1' }],
}

/** Advisories that end `composer audit` with an error, when it reads them. */
const malformed = [
  { ...advisory, advisoryId: 'PKSA-constraint', affectedVersions: 'all of them !' },
  ...[{ reportedAt: 'some day' }, { cve: 1 }, { link: ['https://example.com'] }, { sources: ['x'] }].map(
    (keys, i) => ({ ...advisory, advisoryId: `PKSA-${i}`, affectedVersions: '<1', ...keys }),
  ),
]

describe.skipIf(!hasComposerClient || !hasNginx)('the real Composer with an upstream under nginx', () => {
  const t = useListeningApp(port, environment)
  // Another installation, with its own database and archives.
  const other = useListeningApp(otherPort)
  let second: Server
  let upstream: NginxUpstream
  let project: ComposerProject
  let caller: Caller

  beforeAll(async () => {
    const { connection, config } = t
    second = await startServer({
      ...environment,
      BASE_URL: config.baseUrl,
      DATABASE_URL: databaseUrl(connection),
      DATA_DIR: config.dataDir,
    })
    upstream = await startNginxUpstream()
    caller = await aCaller(t)
    expect((await caller.call('POST', '/upstreams', { url: upstream.url, name: 'nginx' })).statusCode).toBe(
      201,
    )
    await upstream.offer('psr/log', [{ version: '3.0.0' }, { version: '2.0.0' }])
    await upstream.put('advisories.json', { advisories: { 'psr/log': [...malformed, advisory] } })
    await upstream.offer('pub/branchy', [{ version: 'dev-feature/x', 'default-branch': true }], {
      isDev: true,
    })
    await upstream.offer(
      'pub/plugin',
      [
        {
          version: '1.0.0',
          type: 'composer-plugin',
          require: { 'composer-plugin-api': '^2.0' },
          extra: { class: 'Pub\\Plugin' },
          autoload: { 'psr-4': { 'Pub\\': 'src/' } },
        },
      ],
      { zip: aPluginZip(), archivePath: 'moved' },
    )
    const require = { 'psr/log': '^2.0 || ^3.0', 'pub/plugin': '^1.0', 'pub/branchy': 'dev-feature/x' }
    expect((await caller.push('1.0.0', { name: 'acme/private', manifest: { require } })).statusCode).toBe(201)
    project = await aComposerProject()
    await useRegistries(project, baseUrl, caller.token, caller.repository.path)
    await run('config', 'allow-plugins.pub/plugin', 'true')
    await run('config', 'minimum-stability', 'dev')
    await run('config', 'prefer-stable', 'true')
  })
  afterAll(async () => {
    await project?.remove()
    await upstream?.remove()
    if (second) await stopServer(second)
    await rm(folder, { recursive: true })
  })

  async function run(...words: string[]): Promise<string> {
    const { code, output } = await project.composer(...words)
    if (code !== 0) throw new Error(output)
    return output
  }

  const locked = async () => {
    const lock = JSON.parse(await project.read('composer.lock')) as {
      packages: { name: string; version: string; dist: { url: string }; source?: object }[]
    }
    return lock.packages
  }

  it('updates a project whose private package requires three mirrored ones', async () => {
    const output = await run('require', 'acme/private:^1.0')
    expect(output).toContain('the plugin of the upstream is active')
    const packages = await locked()
    expect(packages.map(({ name, version }) => `${name} ${version}`)).toEqual([
      'acme/private 1.0.0',
      'psr/log 3.0.0',
      'pub/branchy dev-feature/x',
      'pub/plugin 1.0.0',
    ])
    for (const { dist, source } of packages) {
      expect(dist.url.startsWith(`${baseUrl}${caller.path}dist/`)).toBe(true)
      expect(source).toBeUndefined()
    }
  })

  it('searches its own packages and those of the upstream, which never sees a name of ours', async () => {
    const results = [{ name: 'psr/log', description: 'Theirs' }]
    await upstream.put('search.json', { results, total: 1 })
    expect(await run('search', 'log')).toMatch(/psr\/log +Theirs/)
    expect(await upstream.requests()).toContain('GET /search.json?q=log&type=')
    const own = await run('search', 'acme/private')
    expect(own).toContain('acme/private')
    expect(own).not.toContain('psr/log')
    // Background checks of the upstream may come between, so requests are not counted.
    expect((await upstream.requests()).filter((request) => request.includes('acme'))).toEqual([])
  })

  it('finds the names of packages that came from the upstream', async () => {
    expect(await run('search', '-N', 'psr', 'plug')).toMatch(/psr\/log[\s\S]*pub\/plugin/)
    expect(await run('search', '-N', 'sr/l')).toContain('psr/log')
    const shown = await run('show', '-a', '-N', 'p*')
    expect(shown).toMatch(/psr\/log[\s\S]*pub\/branchy/)
    expect(shown).not.toContain('acme/private')
  })

  it('gets new versions of known packages from the change feed, without requests for other packages', async () => {
    const feed = async () =>
      (await upstreamRows(t.db)).map(({ feedSince, isFollowed }) => ({ feedSince, isFollowed }))
    const follow = async () => {
      await ageFeedChecks(t.db)
      await enqueue(t.db, followFeeds, undefined)
    }
    await follow()
    await expect.poll(feed).toEqual([{ feedSince: '1000', isFollowed: true }])
    await run('update', '--no-progress')
    await upstream.offer('psr/log', [{ version: '3.1.0' }, { version: '3.0.0' }, { version: '2.0.0' }])
    const actions = [{ type: 'update', package: 'psr/log', time: 1001 }]
    await upstream.put('changes/1000.json', { actions, timestamp: 1001 })
    await upstream.put('changes/1001.json', { actions: [], timestamp: 1001 })
    const before = (await upstream.requests()).length
    await follow()
    const asked = async () => (await upstream.requests()).slice(before)
    await expect.poll(asked).toContain('GET /p2/psr/log.json')

    // The document is older than UPSTREAM_FRESH_SECONDS, but svc has read the feed without a gap.
    await setFollowedHours(t.db, 2)
    await ageDocuments(t.db)
    await project.forget('cache')
    await run('update', '--no-progress')
    expect((await locked()).map(({ name, version }) => `${name} ${version}`)).toContain('psr/log 3.1.0')
    const documents = (await asked()).filter((request) => request.includes('/p2/'))
    expect(documents).toEqual(['GET /p2/psr/log.json'])
  })

  it('installs from the lock, audits, and finds what is outdated, while the upstream is stopped', async () => {
    expect(await run('audit')).toContain('No security vulnerability advisories found')
    await run('require', 'psr/log:^2.0 <2.1')
    const audit = async () => {
      const { code, output } = await project.composer('audit')
      expect(code).toBe(1)
      expect(output).toMatch(/Found 1 security vulnerability advisory affecting 1 package/)
      expect(output).toMatch(/psr\/log[\s\S]*CVE-2026-1[\s\S]*Logs too much/)
    }
    await audit()
    await upstream.stop()
    await project.forget('cache', 'vendor')
    await run('install')
    await audit()
    expect(await run('outdated', '--direct')).toMatch(/psr\/log +2\.0\.0/)
    await run('update', '--no-progress')
    await project.forget('cache', 'vendor')
    await run('config', 'repositories.svc0', 'composer', second.url + caller.path)
    await run('config', '-g', `http-basic.${new URL(second.url).host}`, 'svc', caller.token)
    await run('update', '--no-progress')
    await project.forget('cache', 'vendor')
    await run('install')
    await run('config', 'repositories.svc0', 'composer', `${baseUrl}${caller.path}`)
    await upstream.start()
  })

  it.each([
    ['e500', /HTTP 503|The upstream|could not be downloaded/],
    ['e429', /HTTP 503|The upstream|could not be downloaded/],
    ['html', /HTTP 503|The upstream|could not be downloaded/],
    ['e410', /could not be found|Could not find/],
  ])('reports what is wrong with an upstream that returns %s', async (fault, message) => {
    const { code, output } = await project.composer('require', `fault/${fault}`)
    expect(code).not.toBe(0)
    expect(output).toMatch(message)
  })

  it('installs a slow archive, and one of another svc, whose token is added while the server runs', async () => {
    const noise = Buffer.from(Array.from({ length: 60_000 }, (_, i) => (i * 7919 * (i % 251)) % 256))
    const zip = aZip({ 'composer.json': '{"name":"pub/slow"}', 'noise.bin': noise })
    await upstream.offer('pub/slow', [{ version: '1.0.0' }], { zip, archivePath: 'slow' })
    const theirs = await aCaller(other)
    expect((await theirs.push('1.0.0', { name: 'other/lib' })).statusCode).toBe(201)
    const url = other.config.baseUrl + theirs.path
    const login = { username: 'svc', password: theirs.token }
    const auth = { 'http-basic': { [new URL(url).host]: login } }
    await writeFile(environment.UPSTREAM_AUTH_FILE, JSON.stringify(auth))
    const add = () => caller.call('POST', '/upstreams', { url, name: 'svc' })
    // Only site administrators, and commands, may use the credentials of the server.
    const ofOthers = `/api/repositories/${caller.repository.path}/upstreams`
    expect((await callApi(t, caller.token, 'POST', ofOthers, { url, name: 'svc' })).statusCode).toBe(400)
    expect((await add()).statusCode).toBe(201)
    await run('require', 'pub/slow:^1.0', 'other/lib:^1.0')
    const lib = (await locked()).find(({ name }) => name === 'other/lib')
    expect(lib?.dist.url.startsWith(`${baseUrl}${caller.path}dist/`)).toBe(true)
    await project.forget('cache', 'vendor')
    await run('install')
    expect(await project.read('vendor/other/lib/composer.json')).toContain('other/lib')
  })

  it('does not install an archive that the upstream has only in part', async () => {
    await upstream.offer('fault/cut', [{ version: '1.0.0' }], {
      zip: Buffer.concat([aPluginZip().subarray(0, 200)]),
    })
    const { code, output } = await project.composer('require', 'fault/cut:^1.0')
    expect(code).not.toBe(0)
    expect(output).toMatch(/whole zip archive|503/)
  })
})

/** A Composer plugin that prints a text when it runs. */
function aPluginZip(): Buffer {
  return aZip({
    'composer.json': JSON.stringify({ name: 'pub/plugin', type: 'composer-plugin' }),
    'src/Plugin.php': `<?php namespace Pub;
      class Plugin implements \\Composer\\Plugin\\PluginInterface {
        public function activate(\\Composer\\Composer $c, \\Composer\\IO\\IOInterface $io) {
          $io->writeError('the plugin of the upstream is active');
        }
        public function deactivate(\\Composer\\Composer $c, \\Composer\\IO\\IOInterface $io) {}
        public function uninstall(\\Composer\\Composer $c, \\Composer\\IO\\IOInterface $io) {}
      }`,
  })
}
