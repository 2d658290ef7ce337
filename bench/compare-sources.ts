import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ComposerReading, compareReadings, readWithComposer } from '../test/support/composer-vcs.ts'
import { runBackend } from '../test/support/git-server.ts'
import { runSvc } from '../test/support/program.ts'
import { expand } from '../test/support/registry-actors.ts'
import { aRegistry } from './seed.ts'
import { type Server, startServer } from './server.ts'
import { table } from './table.ts'

const help = `Usage: npx tsx bench/compare-sources.ts <folder> [file]

Reads the bare Git repositories in a folder with svc and with the VcsRepository of Composer, compares the versions and each
field of their metadata, and prints how many differ. The file gets all of it as JSON. Needs PHP and Composer. Run
npm run build before.`

type Entry = Record<string, unknown>

interface Ref {
  kind: string
  name: string
  state: string
  reason: string | null
  version: string | null
  package: string | null
}

const [folder, file] = process.argv.slice(2)
if (folder === undefined || folder.startsWith('-')) process.stdout.write(`${help}\n`)
else await compareAll(resolve(folder))

async function compareAll(folder: string): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'svc-compare-'))
  const git = createServer((request, response) => runBackend(folder, request, response))
  await once(git.listen(0, '127.0.0.1'), 'listening')
  const settings = { OUTBOUND_HTTP: 'true', OUTBOUND_PRIVATE_HOSTS: '127.0.0.1' }
  const server = await startServer(work, () => settings)
  try {
    const names = (await readdir(folder)).filter((name) => existsSync(join(folder, name, 'HEAD')))
    const { repository, path, authorization } = await aRegistry(server.db, 'private')
    const urlOf = (name: string) => `http://127.0.0.1:${(git.address() as AddressInfo).port}/${name}`
    const list = join(work, 'repositories.json')
    await writeFile(list, JSON.stringify(names.map(urlOf)))
    const environment = { DATA_DIR: join(work, 'data'), ...settings }
    const started = performance.now()
    const imported = await runSvc(['source', 'import', repository.path, '--from', list], environment)
    if (imported.code !== 0) throw new Error(imported.stderr)
    await waitForReading(server)
    const seconds = (performance.now() - started) / 1000
    const refs = new Map<string, Ref[]>()
    const entries = new Map<string, Entry[]>()
    for (const name of names) {
      const own = await listRefs(server, urlOf(name))
      refs.set(name, own)
      const packages = new Set(own.flatMap((ref) => ref.package ?? []))
      const found = [...packages].map((one) => fetchEntries(server.baseUrl + path, one, authorization))
      entries.set(name, (await Promise.all(found)).flat())
    }
    const repositories = Object.fromEntries(names.map((name) => [name, join(folder, name)]))
    const readings = readWithComposer(repositories, Object.fromEntries(entries))
    if (file !== undefined)
      await writeFile(file, JSON.stringify({ seconds, refs: Object.fromEntries(refs), readings }))
    process.stdout.write(summarize(readings, seconds))
  } finally {
    await server.stop()
    git.closeAllConnections()
    git.close()
    await rm(work, { recursive: true, force: true, maxRetries: 5 })
  }
}

async function fetchEntries(registry: string, name: string, authorization: string): Promise<Entry[]> {
  const documents = ['', '~dev'].map(async (suffix) => {
    const response = await fetch(`${registry}p2/${name}${suffix}.json`, { headers: { authorization } })
    return response.ok ? expand(await response.text(), name) : []
  })
  return (await Promise.all(documents)).flat()
}

async function waitForReading({ db }: Server): Promise<void> {
  for (;;) {
    const { rows } = await db.query<{ left: number }>(
      'select count(*)::int as left from source where looked_at is null and failure is null',
    )
    if (rows[0]?.left === 0) return
    await sleep(500)
  }
}

async function listRefs({ db }: Server, url: string): Promise<Ref[]> {
  const { rows } = await db.query<Ref>(
    `select r.kind, r.name, r.state, r.reason, r.version, r.package_name as package
       from source_ref r join source s on s.id = r.source_id where s.url = $1`,
    [url],
  )
  return rows
}

function summarize(readings: Record<string, ComposerReading>, seconds: number): string {
  const all = Object.entries(readings)
  const sum = (key: 'composer' | 'packagist' | 'svc') =>
    all.reduce((total, [, reading]) => total + reading[key].length, 0)
  const byKind = new Map<string, string[]>()
  for (const [name, reading] of all)
    for (const { version, field, composer, svc } of compareReadings(reading)) {
      const who = composer === undefined ? 'only svc' : svc === undefined ? 'only Composer' : 'other'
      const kind = `${field}: ${who}`
      byKind.set(kind, [...(byKind.get(kind) ?? []), `${name} ${version}`])
    }
  const rows = [...byKind].map(([kind, found]) => [kind, String(found.length), found[0] ?? ''])
  return `${all.length} Git repositories in ${Math.round(seconds)} s: ${sum('composer')} versions of Composer, ${sum('packagist')} with the checks of Packagist, ${sum('svc')} of svc.\n\n${table(['field', 'versions', 'for example'], rows)}\n`
}
