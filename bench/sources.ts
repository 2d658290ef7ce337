import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readConfig } from '../src/config.ts'
import { operator } from '../src/domain/principal.ts'
import { openOutbound } from '../src/outbound/outbound.ts'
import { addSource, findSource, queueSource } from '../src/sources/sources.ts'
import { makeRepository, runBackend } from '../test/support/git-server.ts'
import { cpuSeconds, memoryMiB, postgresCpuSeconds } from './cpu.ts'
import { requestText } from './load.ts'
import { type Measured, measure } from './measure.ts'
import { aManifest, aRegistry, type Registry } from './seed.ts'
import { type Server, startServer } from './server.ts'
import { figure, table } from './table.ts'

const sourcesHere = { OUTBOUND_HTTP: 'true', OUTBOUND_PRIVATE_HOSTS: 'localhost' }
const manySources = 100
const connections = 4

/**
 * Measures the first reading of a Git repository, a reading without changes, and pulls beside one hundred sources that are
 * read all the time. `repository` is the path of a bare repository. The default has 500 tags of a small package.
 */
export async function measureSources(
  folder: string,
  repository: string | null,
  count: number,
): Promise<string> {
  const server = await startServer(folder, (port) => ({
    ...sourcesHere,
    BASE_URL: `http://127.0.0.1:${port}`,
  }))
  const git = await startGitServer(join(folder, 'git'))
  try {
    const bench: Bench = { folder, server, git }
    return [await measureFirst(bench, repository), await measurePullsBeside(bench, count)].join('\n\n')
  } finally {
    await git.stop()
    await server.stop()
  }
}

/** A Git server, which counts its requests. */
interface GitServer {
  folder: string
  url: string
  requests: number
  stop: () => Promise<void>
}

async function startGitServer(folder: string): Promise<GitServer> {
  mkdirSync(folder)
  const server = createServer((request, response) => {
    git.requests += 1
    runBackend(folder, request, response)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const git: GitServer = {
    folder,
    url: `http://localhost:${(server.address() as AddressInfo).port}`,
    requests: 0,
    async stop() {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
  return git
}

interface Bench {
  folder: string
  server: Server
  git: GitServer
}

async function measureFirst(bench: Bench, repository: string | null): Promise<string> {
  const { server, git } = bench
  const registry = await aRegistry(server.db, 'public')
  if (repository === null) makeTags(git, 'first', 500)
  else execFileSync('cp', ['-r', repository, join(git.folder, 'first.git')])
  const first = await watch(bench, async () => {
    const id = await add(bench, registry, `${git.url}/first.git`)
    await untilRead(server, id, null)
    return id
  })
  const { counts = {} } = (await findSource(server.db, first.result)) ?? {}
  git.requests = 0
  const again = await watch(bench, () => readAgain(server, first.result))
  const cells = ({ seconds, cpu, postgres, serverMiB, gitMiB }: Watched<unknown>) =>
    [seconds, cpu, postgres, serverMiB, gitMiB].map(figure)
  const about = Object.entries(counts).map(([state, number]) => `${number} ${state}`)
  return table(
    ['reading', 'seconds', 'CPU s', 'of PostgreSQL', 'server MiB', 'Git MiB'],
    [
      [`the first: ${about.join(', ')}`, ...cells(first)],
      [`without changes: ${git.requests} requests (one ls-remote)`, ...cells(again)],
    ],
  )
}

async function measurePullsBeside(bench: Bench, count: number): Promise<string> {
  const { server, git } = bench
  const registry = await aRegistry(server.db, 'public')
  const ids: string[] = []
  const repositories = Array.from({ length: manySources }, (_, i) => makeTags(git, `lib${i}`, 1))
  for (let i = 0; i < manySources; i += 1) ids.push(await add(bench, registry, `${git.url}/lib${i}.git`))
  for (const id of ids) await untilRead(server, id, null)
  const path = `${registry.path}p2/bench/lib0.json`
  const load = {
    connections,
    status: 200,
    requests: [requestText(path, { headers: { 'accept-encoding': 'gzip' } })],
  }
  const pull = () => measure(server, { ...load, count })
  const rows: [string, Measured, string][] = []
  for (let round = 0; round < 2; round += 1) {
    rows.push(['without', await pull(), ''])
    for (const changes of [false, true]) {
      const stop = new AbortController()
      const reading = keepReading(server, ids, stop.signal, () => {
        if (changes)
          for (const { commit } of repositories.slice(0, 10)) commit({ 'time.txt': String(Date.now()) })
      })
      const before = git.requests
      const measured = await pull()
      const readings = (git.requests - before) / 2 / measured.seconds
      rows.push([changes ? 'with new commits' : 'without changes', measured, figure(readings)])
      stop.abort()
      await reading
    }
  }
  return table(
    [
      `pulls, ${connections} connections, ${manySources} sources`,
      'req/s',
      'p50 ms',
      'p95 ms',
      'p99 ms',
      'readings/s',
    ],
    rows.map(([title, { perSecond, medianMs, p95Ms, p99Ms }, readings]) => [
      title,
      ...[perSecond, medianMs, p95Ms, p99Ms].map(figure),
      readings,
    ]),
  )
}

/** Queues all sources again and again. */
async function keepReading(
  server: Server,
  ids: readonly string[],
  signal: AbortSignal,
  change: () => void,
): Promise<void> {
  while (!signal.aborted) {
    change()
    for (const id of ids) await queueSource(server.db, { id, repositoryId: null })
    await sleep(2000, null, { signal }).catch(() => {})
  }
  await server.db.query(`delete from job where name = 'read-source' and not is_running`)
}

function makeTags(git: GitServer, name: string, count: number) {
  const repository = makeRepository(git.folder, name)
  const files = { 'composer.json': JSON.stringify(aManifest(`bench/${name}`)), 'src/A.php': '<?php\n' }
  for (let i = 0; i < count; i += 1) {
    repository.git('commit', '--quiet', '--allow-empty', '--message', 'A change')
    repository.git('tag', `1.${i}.0`)
    if (i === 0) repository.commit(files, { tag: '1.0.0' })
  }
  return repository
}

async function add({ folder, server }: Bench, { repository }: Registry, url: string): Promise<string> {
  const config = readConfig({ ...sourcesHere, DATA_DIR: join(folder, 'data'), BASE_URL: server.baseUrl })
  const outbound = openOutbound(config)
  try {
    const context = { config, db: server.db, outbound }
    return (await addSource(context, { repositoryId: repository.id, by: operator }, { url })).id
  } finally {
    await outbound.close()
  }
}

async function untilRead(server: Server, id: string, before: Date | null): Promise<void> {
  for (;;) {
    const source = await findSource(server.db, id)
    if (source?.failure != null) throw new Error(source.failure)
    if (source?.lookedAt != null && source.lookedAt.getTime() !== before?.getTime()) return
    await sleep(50)
  }
}

async function readAgain(server: Server, id: string): Promise<void> {
  const source = await findSource(server.db, id)
  await queueSource(server.db, { id, repositoryId: null })
  await untilRead(server, id, source?.lookedAt ?? null)
}

interface Watched<T> {
  result: T
  seconds: number
  /** Of the server, and of the processes of Git. */
  cpu: number
  postgres: number
  /** At most. */
  serverMiB: number
  gitMiB: number
}

async function watch<T>({ folder, server }: Bench, work: () => Promise<T>): Promise<Watched<T>> {
  const read = () => [cpuSeconds(server.pid) ?? 0, postgresCpuSeconds(server.postmasterPid) ?? 0] as const
  const before = read()
  const started = performance.now()
  const isOver = new AbortController()
  const [most, result] = await Promise.all([
    mostMemory(server, join(folder, 'data', 'git'), isOver.signal),
    work().finally(() => isOver.abort()),
  ])
  const after = read()
  const seconds = (performance.now() - started) / 1000
  return { result, seconds, cpu: after[0] - before[0], postgres: after[1] - before[1], ...most }
}

async function mostMemory(server: Server, gitFolder: string, signal: AbortSignal) {
  let [serverMiB, gitMiB] = [0, 0]
  while (!signal.aborted) {
    serverMiB = Math.max(serverMiB, memoryMiB(server.pid) ?? 0)
    const pids = readdirSync('/proc').filter(
      (name) => /^\d+$/.test(name) && folderOf(name).startsWith(gitFolder),
    )
    gitMiB = Math.max(
      gitMiB,
      pids.reduce((sum, pid) => sum + (memoryMiB(Number(pid)) ?? 0), 0),
    )
    await sleep(200)
  }
  return { serverMiB, gitMiB }
}

function folderOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}
