import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { appendFile, cp, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { openLocalStore } from '../../src/archives/local-store.ts'
import { openOwnStore } from '../../src/archives/store-owner.ts'
import { verifyArchives } from '../../src/archives/verify-archives.ts'
import { noteServerUrls } from '../../src/database/installation.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { forgetArchives } from '../support/archive-rows.ts'
import { databaseUrl } from '../support/program.ts'
import { aPackageZip, expand } from '../support/registry-actors.ts'
import { runCommand } from '../support/run-command.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const t = useApp({ ...upstreamsHere, BASE_URL: 'http://svc.test' })
const upstream = useUpstream()
const folders: string[] = []

beforeEach(async () => {
  await forgetArchives(t.db)
  await rm(join(t.config.dataDir, 'archives'), { recursive: true, force: true })
  await openOwnStore(t.db, t.config)
})
afterAll(async () => {
  for (const folder of folders) await rm(folder, { recursive: true, force: true })
})

async function aFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-repair-'))
  folders.push(folder)
  return folder
}

const pathIn = (folder: string, sha256: string) =>
  join(folder, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
const pathOf = (sha256: string) => pathIn(t.config.dataDir, sha256)
const environment = () => ({
  DATABASE_URL: databaseUrl(t.connection),
  DATA_DIR: t.config.dataDir,
  ...upstreamsHere,
})
const svc = (...words: string[]) => runCommand(words, environment())
const repair = async (...words: string[]) => {
  const { code, stdout } = await svc('verify-archives', '--repair', '--json', ...words)
  return { code, ...(JSON.parse(stdout) as Repaired) }
}
interface Repaired {
  repaired: { sha256: string; from: string }[]
  problems: { sha256: string; problem: string; versions: string[]; reasons: string[] }[]
}

/** A published version, with its bytes and the function that publishes it again. */
async function aVersion() {
  const caller = await aCaller(t)
  const payload = aPackageZip('acme/lib', { description: Math.random().toString() })
  const pushed = await caller.push('1.0.0', { payload })
  const { sha256 } = pushed.json() as { sha256: string }
  return { ...caller, payload, sha256, pushAgain: () => caller.push('1.0.0', { payload }) }
}

/** A package of the upstream whose archive svc has fetched. */
async function aMirrored(name: string) {
  const payload = aPackageZip(name, { description: Math.random().toString() })
  const path = `/archives/${name}/1.0.0.zip`
  upstream.put(path, payload)
  upstream.offer(name, ['1.0.0'])
  const caller = await aCaller(t)
  await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public' })
  const [entry] = expand((await caller.ask(`p2/${name}.json`)).body, name)
  const { url } = (entry?.['dist'] ?? {}) as { url: string }
  expect((await caller.ask(url.slice(`http://svc.test${caller.path}`.length))).statusCode).toBe(200)
  return { ...caller, path, sha256: createHash('sha256').update(payload).digest('hex') }
}

const damages: [string, (path: string) => Promise<void>][] = [
  ['missing', (path) => rm(path)],
  ['truncated', (path) => truncate(path, 10)],
  ['changed in place', async (path) => writeFile(path, (await readFile(path)).fill(0, 30, 40))],
]

describe('svc verify-archives --repair', () => {
  it.each(damages)('fetches a mirrored archive that is %s from its upstream again', async (_what, damage) => {
    const { sha256 } = await aMirrored('acme/mirrored')
    await damage(pathOf(sha256))
    expect(await repair()).toMatchObject({ code: 0, repaired: [{ sha256, from: 'public' }], problems: [] })
    expect(await verifyArchives(t.db, await openLocalStore(t.config.dataDir))).toEqual({
      archives: 1,
      problems: [],
    })
  })

  it('takes no other bytes from an upstream', async () => {
    const { sha256, path, repository } = await aMirrored('acme/other')
    upstream.put(path, aPackageZip('acme/other', { description: 'tagged again' }))
    await truncate(pathOf(sha256), 10)
    expect(await repair()).toMatchObject({
      code: 1,
      repaired: [],
      problems: [
        {
          sha256,
          problem: 'damaged',
          versions: [`${repository.path}: acme/other 1.0.0`],
          reasons: [expect.stringMatching(/^public: its bytes do not match the hash either/)],
        },
      ],
    })
    upstream.fail(path, 404)
    expect((await repair()).problems[0]?.reasons).toEqual([
      expect.stringMatching(/^public: .*did not respond as expected/),
    ])
    upstream.fail(path, null)
    expect(await readdir(join(t.config.dataDir, 'tmp'))).toEqual([])
  })

  it('asks no upstream that may not offer the package now', async () => {
    const { sha256, call } = await aMirrored('acme/denied')
    expect((await call('PATCH', '/upstreams/public', { deny: ['acme/denied'] })).statusCode).toBe(200)
    await rm(pathOf(sha256))
    const before = upstream.requests.length
    const { code, problems } = await repair()
    expect([code, problems[0]?.reasons.length, upstream.requests.length]).toEqual([1, 1, before])
  })

  it('takes archives from a backup, also from one that ends too early', async () => {
    const [one, two] = [await aVersion(), await aVersion()]
    const file = join(await aFolder(), 'b.tar')
    expect((await svc('backup', file)).code).toBe(0)
    await rm(pathOf(one.sha256))
    await truncate(pathOf(two.sha256), 10)
    const done = await repair('--from', file)
    expect([done.code, done.problems]).toEqual([0, []])
    expect(done.repaired.map(({ sha256, from }) => `${sha256} ${from}`).sort()).toEqual(
      [one.sha256, two.sha256].map((sha256) => `${sha256} ${file}`).sort(),
    )
    const bytes = await readFile(file)
    const cut = join(await aFolder(), 'cut.tar')
    const [first = '', second = ''] = [one.sha256, two.sha256].sort()
    await writeFile(cut, bytes.subarray(0, bytes.indexOf(`archives/${second}.zip`) + 600))
    for (const sha256 of [first, second]) await rm(pathOf(sha256))
    expect(await repair('--from', cut)).toMatchObject({
      code: 1,
      repaired: [{ sha256: first, from: cut }],
      problems: [{ sha256: second, reasons: [expect.stringContaining(cut)] }],
    })
  })

  it('takes archives from the folder of another DATA_DIR, and writes nothing there', async () => {
    const { sha256 } = await aVersion()
    const copy = await aFolder()
    await cp(join(t.config.dataDir, 'archives'), join(copy, 'archives'), { recursive: true })
    await truncate(pathOf(sha256), 10)
    expect(await repair('--from', copy)).toMatchObject({ code: 0, repaired: [{ sha256, from: copy }] })
    expect(await readdir(copy)).toEqual(['archives'])
  })

  it('asks the places in their order, and takes only bytes that match the hash', async () => {
    const { sha256 } = await aVersion()
    const [bad, good] = [await aFolder(), await aFolder()]
    for (const folder of [bad, good]) {
      await mkdir(join(pathIn(folder, sha256), '..'), { recursive: true })
      await cp(pathOf(sha256), pathIn(folder, sha256))
    }
    await appendFile(pathIn(bad, sha256), 'x')
    await rm(pathOf(sha256))
    expect(await repair('--from', bad, good)).toMatchObject({ code: 0, repaired: [{ sha256, from: good }] })
  })

  it('says what it could not repair, and what helps', async () => {
    const { sha256, repository } = await aVersion()
    await rm(pathOf(sha256))
    const { code, stdout, stderr } = await svc('verify-archives', '--repair')
    expect([code, stderr]).toEqual([1, 'svc: 1 archive has a problem.\n'])
    expect(stdout).toBe(
      [
        `${sha256} is missing`,
        `  ${repository.path}: acme/lib 1.0.0`,
        '  Not repaired. No source has it: name a backup or another store with --from, or upload the same file again.',
        'Read 0 archives, repaired 0, and could not repair 1.\n',
      ].join('\n'),
    )
  })

  it('stores nothing in a folder that is not the store of the server', async () => {
    const { sha256 } = await aVersion()
    const [copy, wrong] = [await aFolder(), await aFolder()]
    await cp(join(t.config.dataDir, 'archives'), join(copy, 'archives'), { recursive: true })
    await noteServerUrls(t.db, { baseUrl: 'http://svc.test', authUrl: 'http://svc.test' })
    const words = ['verify-archives', '--repair', '--from', copy]
    const { code, stderr } = await runCommand(words, { ...environment(), DATA_DIR: wrong })
    expect([code, stderr]).toEqual([1, expect.stringContaining("Run the command with the server's DATA_DIR")])
    expect(existsSync(pathIn(wrong, sha256))).toBe(false)
  })

  it('refuses a place that does not exist, and --from without --repair', async () => {
    const missing = join(await aFolder(), 'missing')
    expect(await svc('verify-archives', '--repair', '--from', missing)).toMatchObject({
      code: 1,
      stderr: `svc: --from ${missing} cannot be read (ENOENT).\n`,
    })
    const empty = await aFolder()
    expect((await svc('verify-archives', '--repair', '--from', empty)).stderr).toBe(
      `svc: ${empty} is not a DATA_DIR: it has no folder archives.\n`,
    )
    expect(await readdir(empty)).toEqual([])
    expect((await svc('verify-archives', '--from', empty)).stderr).toBe('svc: --from needs --repair.\n')
  })
})

describe('an upload of the same archive again', () => {
  it.each(damages)('brings an archive back that is %s', async (_what, damage) => {
    const { sha256, payload, pushAgain } = await aVersion()
    await damage(pathOf(sha256))
    expect((await pushAgain()).statusCode).toBe(200)
    expect((await readFile(pathOf(sha256))).equals(payload)).toBe(true)
  })
})
