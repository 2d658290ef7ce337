import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { useCommands } from '../support/commands.ts'
import { versionRows } from '../support/package-rows.ts'
import { makeDataDir } from '../support/postgres.ts'
import { runSvcWithin4KiB } from '../support/program.ts'
import { aPackageZip } from '../support/registry-actors.ts'
import { runCommand } from '../support/run-command.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { aZip } from '../support/zip.ts'

const commands = useCommands()
const upstream = useUpstream({ 'available-packages': ['acme/lib', 'acme/other'] })
const flawed = useUpstream()
const parted = useUpstream({ list: '/list.json' })
let dataDir: string

const svc = async (...words: string[]) => {
  const environment = { ...commands.environment, ...upstreamsHere, DATA_DIR: dataDir }
  const { code, stdout, stderr } = await runCommand(words, environment)
  return { code, stdout, stderr, json: () => JSON.parse(stdout) }
}

beforeAll(async () => {
  dataDir = await makeDataDir()
  await commands.json('account', 'create', 'ann')
  await commands.json('group', 'create', 'acme', '--owner', 'ann')
  await commands.json('repository', 'create', 'acme/php')
  await commands.json('repository', 'create', 'acme/mirror')
})

describe('svc import', () => {
  it('copies packages as our own versions, with their dates, and continues where it stopped', async () => {
    upstream.offer('acme/lib', [
      { version: 'v1.1.0', 'published-time': '2021-05-06T07:08:09+00:00' },
      '1.0.0',
    ])
    upstream.offer('acme/lib', ['dev-main'], { isDev: true })
    upstream.offer('acme/other', ['1.0.0'])
    const words = ['import', upstream.url, 'acme/lib', '--into', 'acme/php', '--json']
    const dry = (await svc(...words, '--map-v-tags', '--dry-run')).json()
    expect(dry).toMatchObject({ imported: 2, already_there: 0, refused: 1, dry_run: true })
    expect(await versionRows(commands.db)).toEqual([])

    expect((await svc(...words)).json()).toMatchObject({ imported: 1, refused: 2 })
    const second = (await svc(...words, '--map-v-tags')).json()
    expect(second).toMatchObject({ imported: 1, already_there: 1, refused: 1 })
    expect(second.items).toContainEqual({
      name: 'acme/lib',
      version: 'dev-main',
      outcome: 'refused',
      reason: expect.stringContaining('validate [Version:dev-main] failed'),
    })
    const versions = await versionRows(commands.db)
    expect(versions.map(({ version, publishedAt }) => ({ version, publishedAt }))).toEqual([
      { version: '1.0.0', publishedAt: new Date('2020-01-01T00:00:00Z') },
      { version: '1.1.0', publishedAt: new Date('2021-05-06T07:08:09Z') },
    ])
    expect((await svc('import', upstream.url, '--into', 'acme/php', '--json')).json()).toMatchObject({
      imported: 1,
    })
  })

  it('imports nothing into a package that only trusted publishers publish', async () => {
    upstream.offer('only/ci', ['1.0.0'])
    const words = ['import', upstream.url, 'only/ci', '--into', 'acme/php', '--json']
    expect((await svc(...words)).json()).toMatchObject({ imported: 1 })
    await commands.json('package', 'set', 'acme/php', 'only/ci', '--only-trusted-publishers', 'yes')
    upstream.offer('only/ci', ['1.0.0', '1.1.0'])
    const { items } = (await svc(...words)).json()
    expect(items).toContainEqual({
      name: 'only/ci',
      version: '1.1.0',
      outcome: 'refused',
      reason: expect.stringContaining('only trusted publishers publish only/ci'),
    })
  })

  it('copies inline packages of a registry with metadata-url', async () => {
    upstream.offer('part/p2', ['2.0.0'])
    const dist = { type: 'zip', url: `${upstream.url}/archives/part/inline/1.0.0.zip`, reference: 'abcdef1' }
    upstream.offer('part/inline', ['1.0.0', '9.0.0'])
    upstream.put('/partial/packages.json', {
      packages: { 'part/inline': [{ name: 'part/inline', version: '1.0.0', dist }] },
      'metadata-url': '/p2/%package%.json',
      'available-packages': ['part/p2'],
    })
    const words = ['import', `${upstream.url}/partial`, 'part/*', '--into', 'acme/php', '--json']
    const { items } = (await svc(...words)).json()
    expect(items).toMatchObject([
      { name: 'part/inline', version: '1.0.0', outcome: 'imported' },
      { name: 'part/p2', version: '2.0.0', outcome: 'imported' },
    ])
  })

  it('continues after development branches, which svc does not publish', async () => {
    upstream.offer('acme/branches', ['dev-main', 'dev-feature', '1.x-dev'], { isDev: true })
    upstream.offer('acme/branches', ['2.0.0', '10.0.0'])
    const words = ['import', upstream.url, 'acme/branches', '--into', 'acme/php', '--json']
    const { stdout, stderr } = await svc(...words)
    expect(stderr).toBe('')
    const { items } = JSON.parse(stdout)
    const imported = items.filter(({ outcome }: { outcome: string }) => outcome === 'imported')
    expect(imported.map(({ version }: { version: string }) => version)).toEqual(['2.0.0', '10.0.0'])
    expect(items).toHaveLength(5)
  })

  it('publishes a version now whose date no document can have', async () => {
    const keys = { 'published-time': null }
    upstream.offer('acme/dated', [
      { ...keys, version: '1.0.0', time: '-200000-01-01T00:00:00Z' },
      { ...keys, version: '1.1.0', time: '-000001-11-30T00:00:00Z' },
    ])
    const words = ['import', upstream.url, 'acme/dated', '--into', 'acme/php', '--json']
    const { stdout, stderr } = await svc(...words)
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toMatchObject({ imported: 2 })
    const dated = await versionRows(commands.db, 'acme/dated')
    const now = Date.now()
    expect(dated.map(({ publishedAt }) => now - publishedAt.getTime() < 3_600_000)).toEqual([true, true])
  })

  it('refuses an archive that is not what the registry says', async () => {
    upstream.put('/archives/acme/wrong.zip', aPackageZip('acme/wrong'))
    const dist = {
      type: 'zip',
      url: `${upstream.url}/archives/acme/wrong.zip`,
      reference: 'abcdef1',
      shasum: 'b'.repeat(40),
    }
    upstream.offer('acme/wrong', [{ version: '1.0.0', dist }])
    const { items } = (await svc('import', upstream.url, 'acme/wrong', '--into', 'acme/php', '--json')).json()
    expect(items).toMatchObject([{ outcome: 'refused', reason: expect.stringContaining('SHA-1') }])
  })
})

describe('svc import from a registry that fails for some packages', () => {
  /** Imports all of these packages. */
  const importAll = async (...names: string[]) => {
    flawed.put('/packages.json', { 'metadata-url': '/p2/%package%.json', 'available-packages': names })
    const { code, stdout, stderr } = await svc('import', flawed.url, '--into', 'acme/php', '--json')
    return { code, ...JSON.parse(stdout), ...JSON.parse(stderr || '{}') }
  }

  it('refuses these, with the reason, and imports the others', async () => {
    flawed.fail('/p2/flaw/error.json', 500)
    flawed.fail('/p2/flaw/error~dev.json', 500)
    flawed.put('/p2/flaw/html.json', '<h1>Maintenance</h1>')
    flawed.fail('/p2/flaw/half~dev.json', 503)
    flawed.offer('flaw/half', ['1.0.0'])
    flawed.offer('flaw/intact', ['1.0.0'])
    const names = ['flaw/error', 'flaw/half', 'flaw/html', 'flaw/intact']
    const { code, error, imported, refused, items } = await importAll(...names)
    expect([code, imported, refused]).toEqual([1, 2, 3])
    expect(error).toBe('The metadata of 3 packages could not be read. Run the import again.')
    const failed = { version: null, outcome: 'refused' }
    const dev = 'its development versions cannot be read'
    expect(items).toEqual([
      { ...failed, name: 'flaw/error', reason: `${flawed.host} did not respond as expected` },
      { ...failed, name: 'flaw/half', reason: `${dev}: ${flawed.host} did not respond as expected` },
      { name: 'flaw/half', version: '1.0.0', outcome: 'imported', reason: null },
      { ...failed, name: 'flaw/html', reason: 'the metadata of flaw/html of the upstream is not JSON' },
      { name: 'flaw/intact', version: '1.0.0', outcome: 'imported', reason: null },
    ])
    const plain = await svc('import', flawed.url, 'flaw/error', '--into', 'acme/php')
    expect(plain.stdout).toBe(
      `flaw/error: refused (${flawed.host} did not respond as expected)\nImported 0, already there 0, refused 1.\n`,
    )
  })

  it('refuses a name that it does not have, or that is not valid, and patterns that match nothing', async () => {
    flawed.put('/packages.json', { 'metadata-url': '/p2/%package%.json', 'available-packages': ['here/lib'] })
    const long = `long/${'a'.repeat(295)}`
    flawed.offer(long, ['1.0.0'])
    flawed.offer('here/lib', ['1.0.0'])
    const words = ['import', flawed.url, '--into', 'acme/php', '--dry-run']
    const { code, stdout } = await svc(...words, 'here/none', long, 'here/lib')
    expect([code, stdout.split('\n').slice(0, 3)]).toEqual([
      1,
      [
        'here/none: refused (the registry has no version of it)',
        `${long}: refused (it is not a valid package name)`,
        'here/lib 1.0.0: imported',
      ],
    ])
    // A listed package without versions is no mistake of the command.
    flawed.put('/packages.json', {
      'metadata-url': '/p2/%package%.json',
      'available-packages': ['here/lib', 'here/none'],
    })
    const all = await svc(...words, 'here/*')
    expect([all.code, all.stdout]).toEqual([0, expect.stringContaining('here/none: refused')])
    expect((await svc(...words, 'none/*')).stderr).toContain('none of its packages matches the patterns')
  })

  it('ends with the results so far when it responds no more', async () => {
    const gone = Array.from({ length: 12 }, (_, i) => `gone/p${10 + i}`)
    for (const name of gone) {
      for (const suffix of ['', '~dev']) {
        flawed.fail(`/p2/${name}${suffix}.json`, (request) => request.socket.destroy())
      }
    }
    flawed.offer('begun/lib', ['1.0.0'])
    const { code, error, imported, refused } = await importAll('begun/lib', ...gone)
    expect([code, imported, refused]).toEqual([1, 1, 10])
    expect(error).toContain('10 packages in a row got no response. 2 packages were not tried')
    expect(flawed.requests).not.toContain('GET /p2/gone/p20.json')
  })
})

describe('on a machine that cannot store an archive', () => {
  const svcWithin4KiB = (...words: string[]) =>
    runSvcWithin4KiB(words, { ...commands.environment, ...upstreamsHere, DATA_DIR: dataDir })
  const failed = { code: 1, stdout: '', stderr: 'svc: EFBIG: file too large, write\n' }

  it('svc import ends with the reason, and does not blame the registry', async () => {
    upstream.put('/archives/acme/big/1.0.0.zip', aZip({ 'composer.json': '{}', blob: randomBytes(10_000) }))
    upstream.offer('acme/big', ['1.0.0'])
    expect(await svcWithin4KiB('import', upstream.url, 'acme/big', '--into', 'acme/php')).toEqual(failed)
  })

  it('svc upstream prefetch ends with the reason', async () => {
    upstream.put('/archives/large/one/1.0.0.zip', aZip({ 'composer.json': '{}', blob: randomBytes(10_000) }))
    upstream.offer('large/one', ['1.0.0'])
    await commands.json('repository', 'create', 'acme/full')
    upstream.put('/packages.json', { packages: [], 'metadata-url': '/p2/%package%.json' })
    await svc('upstream', 'add', 'acme/full', upstream.url)
    const lock = join(dataDir, 'composer.lock')
    await writeFile(lock, JSON.stringify({ packages: [{ name: 'large/one', version: '1.0.0' }] }))
    expect(await svcWithin4KiB('upstream', 'prefetch', 'acme/full', '--lock', lock)).toEqual(failed)
  })
})

describe('svc import from a registry with a list in parts', () => {
  /** Makes the registry send a part of its list with this Link header. */
  const aPart = (path: string, packageNames: string[], link: string | null) =>
    parted.fail(path, (_, response) =>
      response.writeHead(200, link === null ? {} : { link }).end(JSON.stringify({ packageNames })),
    )
  const importAll = () => svc('import', parted.url, '--into', 'acme/php', '--dry-run', '--json')

  it('imports the packages of all parts', async () => {
    for (const name of ['part/one', 'part/two', 'part/three']) parted.offer(name, ['1.0.0'])
    const next = `${parted.url}/list.json?after=part%2Fone`
    aPart('/list.json', ['part/one'], `<${parted.url}/list.json>; rel="first", <${next}>; rel="next"`)
    aPart('/list.json?after=part%2Fone', ['part/one', 'part/two'], '</last.json?a=1,2>; title="x"; rel=next')
    aPart('/last.json?a=1,2', ['part/three'], `<${parted.url}/list.json>; rel="prev"`)
    const { imported, items } = (await importAll()).json()
    expect(imported).toBe(3)
    expect(items.map(({ name }: { name: string }) => name)).toEqual(['part/one', 'part/three', 'part/two'])
  })

  it('skips names that are no package names, and prints nothing that controls the terminal', async () => {
    aPart('/list.json', ['part/\u001b[2Jx', 'Part/One', 'part/../x'], null)
    const dist = { type: 'zip', url: `${parted.url}/none.zip`, reference: 'abcdef1', shasum: '' }
    parted.offer('part/one', [{ version: '1.0.0', dist: { ...dist, url: `${parted.url}/\u009b2J.zip` } }])
    const { code, stdout } = await svc('import', parted.url, '--into', 'acme/php')
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^part\/one 1\.0\.0: refused .*\nImported 0, .*\n$/),
    ])
    expect(stdout).not.toMatch(/(?!\n)\p{Cc}/u)
  })

  it('fails when a part is missing or at another origin, because the import would be incomplete', async () => {
    aPart('/list.json', ['part/one'], '</none.json>; rel="next"')
    const missing = await importAll()
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('/none.json does not exist')])
    upstream.put('/elsewhere.json', { packageNames: ['part/two'] })
    aPart('/list.json', ['part/one'], `<${upstream.url}/elsewhere.json>; rel="next"`)
    const elsewhere = await importAll()
    expect([elsewhere.code, elsewhere.stderr]).toEqual([1, expect.stringContaining('another origin')])
    expect(upstream.requests).not.toContain('GET /elsewhere.json')
  })

  it('fails when the list has too many parts or names', async () => {
    aPart('/list.json', ['part/one'], '</list.json>; rel="next"')
    const endless = await importAll()
    expect([endless.code, endless.stderr]).toEqual([1, expect.stringContaining('more than 1000 parts')])
    const names = (count: number, letter: string) =>
      Array.from({ length: count }, (_, i) => `part/${letter}${i}`)
    aPart('/list.json', names(500_001, 'p'), null)
    const large = await importAll()
    expect([large.code, large.stderr]).toEqual([1, expect.stringContaining('more than 500000 values')])
    aPart('/list.json', names(400_000, 'p'), '</list.json?part=2>; rel="next"')
    aPart('/list.json?part=2', names(400_000, 'q'), '</list.json?part=3>; rel="next"')
    aPart('/list.json?part=3', names(400_000, 'r'), null)
    const long = await importAll()
    expect([long.code, long.stderr]).toEqual([1, expect.stringContaining('more than 1000000 names')])
  })
})

describe('svc upstream prefetch', () => {
  it('fetches what a lock file names, with URLs of another source', async () => {
    upstream.put('/packages.json', { packages: [], 'metadata-url': '/p2/%package%.json' })
    upstream.offer('psr/log', ['3.0.0', '2.0.0'])
    await svc('upstream', 'add', 'acme/mirror', upstream.url)
    const lock = join(tmpdir(), `svc-test-lock-${process.pid}.json`)
    const dist = {
      type: 'zip',
      url: 'https://api.github.com/x',
      reference: Buffer.from('psr/log 2.0.0').toString('hex').padEnd(40, '0').slice(-40),
    }
    await writeFile(
      lock,
      JSON.stringify({
        packages: [{ name: 'psr/log', version: '2.0.0', dist }],
      }),
    )
    const { items } = (await svc('upstream', 'prefetch', 'acme/mirror', '--lock', lock, '--json')).json()
    expect(items).toMatchObject([{ name: 'psr/log', outcome: 'fetched' }])
    const again = (await svc('upstream', 'prefetch', 'acme/mirror', '--lock', lock, '--json')).json()
    expect(again.items[0].outcome).toBe('known')
    await writeFile(lock, 'nonsense')
    expect((await svc('upstream', 'prefetch', 'acme/mirror', '--lock', lock)).stderr).toContain('not JSON')
    expect((await svc('upstream', 'prefetch', 'acme/mirror', '--lock', '/none.lock')).stderr).toBe(
      'svc: The lock file /none.lock cannot be read (ENOENT).\n',
    )
  })
  it('fails for each package that it cannot get, with the reason', async () => {
    upstream.put('/packages.json', { packages: [], 'metadata-url': '/p2/%package%.json' })
    await commands.json('repository', 'create', 'acme/lock')
    const allow = ['--allow', 'psr/*', 'evil/*', 'meta/*', '--deny', 'evil/*']
    await svc('upstream', 'add', 'acme/lock', upstream.url, '--name', 'first', ...allow)
    await svc('upstream', 'add', 'acme/lock', parted.url, '--mode', 'approved', '--deny', 'evil/*')
    upstream.offer('acme/lib', ['1.0.0'])
    upstream.offer('acme/sibling', ['1.0.0'])
    await svc('import', upstream.url, 'acme/lib', '--into', 'acme/lock')
    await svc('import', upstream.url, 'acme/sibling', '--into', 'acme/php')
    await svc('vendor', 'claim', 'acme', 'claimed')
    upstream.offer('psr/cache', ['1.0.0'])
    upstream.offer('meta/all', [{ version: '1.0.0', type: 'metapackage', dist: null }])
    const dist = { type: 'zip', url: 'https://api.github.com/x', reference: 'a'.repeat(40) }
    const locked = (name: string, version: string, keys: object = { dist }) => ({ name, version, ...keys })
    const lock = join(dataDir, 'reasons.lock')
    const packages = [
      locked('acme/lib', 'v1.0.0'),
      locked('acme/lib', '2.0.0'),
      locked('acme/sibling', '1.0.0'),
      locked('claimed/lib', '1.0.0'),
      locked('evil/lib', '1.0.0'),
      locked('vetted/lib', '1.0.0'),
      locked('psr/none', '1.0.0'),
      locked('psr/cache', '1.0.0'),
      locked('psr/cache', '9.0.0', { dist: { ...dist, reference: null } }),
      locked('meta/all', '1.0.0', {}),
      locked('psr/local', 'dev-main', { dist: { ...dist, type: 'path' } }),
    ]
    await writeFile(lock, JSON.stringify({ packages }))
    const { code, stdout, stderr } = await svc('upstream', 'prefetch', 'acme/lock', '--lock', lock, '--json')
    const outcomes = JSON.parse(stdout).items.map((item: Record<string, string>) =>
      Object.values(item).join('; '),
    )
    const noVersion = 'the upstream has no such version with this reference'
    expect(outcomes).toEqual([
      'acme/lib; v1.0.0; own; this repository publishes it',
      'acme/lib; 2.0.0; failed; this repository has the package, but not this version',
      'acme/sibling; 1.0.0; own; another repository of the group has it',
      'claimed/lib; 1.0.0; failed; its vendor belongs to the group, and this repository does not have it',
      'evil/lib; 1.0.0; failed; no upstream may offer it',
      'vetted/lib; 1.0.0; failed; it is not approved',
      'psr/none; 1.0.0; failed; no upstream has it',
      `psr/cache; 1.0.0; failed; ${noVersion}`,
      `psr/cache; 9.0.0; failed; ${noVersion}`,
      'meta/all; 1.0.0; skipped; the lock file names no archive of it',
      'psr/local; dev-main; skipped; it is a folder of the project',
    ])
    expect([code, JSON.parse(stderr).error]).toEqual([1, '7 archives could not be fetched.'])
    expect(upstream.requests.filter((request) => request.includes('psr/local'))).toEqual([])
  })

  it('knows the stored archive of a package that the repository publishes now', async () => {
    await commands.json('repository', 'create', 'acme/later')
    await svc('upstream', 'add', 'acme/later', upstream.url)
    upstream.offer('later/lib', ['1.0.0'])
    const reference = Buffer.from('later/lib 1.0.0').toString('hex').padEnd(40, '0').slice(-40)
    const dist = { type: 'zip', url: 'https://api.github.com/x', reference }
    const lock = join(dataDir, 'later.lock')
    await writeFile(lock, JSON.stringify({ packages: [{ name: 'later/lib', version: '1.0.0', dist }] }))
    const prefetch = async () =>
      (await svc('upstream', 'prefetch', 'acme/later', '--lock', lock, '--json')).json().items[0].outcome
    expect(await prefetch()).toBe('fetched')
    await svc('vendor', 'claim', 'acme', 'later', '--force')
    upstream.offer('later/lib', ['2.0.0'])
    expect((await svc('import', upstream.url, 'later/lib', '--into', 'acme/later')).stdout).toContain(
      'later/lib 2.0.0: imported',
    )
    expect(await prefetch()).toBe('known')
  })
})
