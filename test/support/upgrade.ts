import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Sizes } from '../../bench/large-data.ts'
import { planMigrations } from '../../src/database/migration-plan.ts'
import { unpackPreviousRelease } from './previous-release.ts'
import { databaseUrl, type Server, startServer, stopServer } from './program.ts'
import { countDuring, type LoadCount } from './rolling.ts'
import { signInOver } from './signed-in.ts'

/** What happened to requests, and to the database. */
export interface Upgrade {
  /** Requests to the previous release, while another process of it starts. */
  before: LoadCount
  /** Requests to the previous release, while a process of this one starts and migrates. */
  during: LoadCount
  /** Requests to both after that. */
  after: LoadCount[]
  /**
   * How long the slowest request took, from the start of the migration on, that reads no table: other work on the machine
   * delays it as much as the others.
   */
  slowestProbeMs: number
  /** How long the migration and the start took. */
  seconds: number
  /** Functions that the previous release calls, and that the database no longer has with the same parameters. */
  lostFunctions: string[]
  /** The names of the files that `svc migrate --plan` named, and of those that were applied. */
  planned: string[]
  applied: string[]
}

const connections = { connections: 6, pauseMs: 10 }

/**
 * Fills an empty database with large data of the previous release, and upgrades it while requests pull, push, refresh
 * tokens and open pages.
 */
export async function upgradeUnderLoad(
  { db, connection }: { db: pg.Pool; connection: pg.PoolConfig },
  folder: string,
  sizes: Sizes,
): Promise<Upgrade> {
  await mkdir(join(folder, 'release'))
  const release = await unpackPreviousRelease(join(folder, 'release'))
  const { aRemoteUser } = await release.load<typeof import('./remote-user.ts')>('test/support/remote-user.ts')
  const { password } = await release.load<typeof import('./actors.ts')>('test/support/actors.ts')
  const { fill, largePackage } =
    await release.load<typeof import('../../bench/large-data.ts')>('bench/large-data.ts')
  const environment = {
    DATABASE_URL: databaseUrl(connection),
    DATA_DIR: join(folder, 'data'),
    BASE_URL: 'http://svc.test',
    LOG_LEVEL: 'warn',
  }
  const servers: Server[] = []
  const start = async (program?: string) => {
    const server = await startServer(environment, undefined, program)
    servers.push(server)
    return server
  }
  try {
    const old = await start(release.program)
    // Each load has its own repository: a repeated upload would return 200. The first two are large.
    const users = await Promise.all(Array.from({ length: 4 }, () => aRemoteUser(db)))
    const loads = await Promise.all(
      users.map(async (user) => {
        await user.push(old.url, '1.0.0')
        const cookie = await signInOver(old.url, { username: user.account.username, password })
        const pages = [
          '/',
          `/${user.repository}`,
          `/${user.repository}/packages/acme/lib`,
          '/settings/tokens',
        ]
        const visit = (url: string, turn: number) =>
          fetch(`${url}${pages[turn % pages.length]}`, { headers: { cookie } })
        return { user, visit }
      }),
    )
    const [first, second, third, fourth] = loads as [Load, Load, Load, Load]
    await first.user.push(old.url, '1.0.0', largePackage)
    const repositoryId = await findRepositoryId(db, first.user.repository)
    // Its downloads are 600,000 rows for versions that the same statement reads. To look each version up again took a third
    // of the time. The table has no other triggers.
    await db.query('alter table package_download disable trigger all')
    await fill(db, sizes, { repositoryId, memberId: first.user.account.id })
    await db.query('alter table package_download enable trigger all')
    const functions = await listCalledFunctions(db, join(folder, 'release/src'))
    const count = (server: Server, load: Load, work: () => Promise<unknown>) =>
      countDuring(
        server.url,
        load.user,
        { ...connections, visit: load.visit },
        async () => void (await work()),
      )

    const before = await count(old, first, async () => stopServer(await start(release.program)))
    const planned = (await planMigrations(db, null)).flatMap((step) => [
      ...step.migrations,
      ...step.functions,
    ])
    const appliedBefore = await listApplied(db)
    const begin = performance.now()
    const probe = startProbe(servers)
    const during = await count(old, second, () => start())
    const seconds = (performance.now() - begin) / 1000
    const upgraded = servers.at(-1) as Server
    const after = await Promise.all([
      count(old, third, () => sleep(2000)),
      count(upgraded, fourth, () => sleep(2000)),
    ])
    const slowestProbeMs = await probe.stop()
    const left = new Set(await listFunctions(db))
    const known = new Set(appliedBefore)
    return {
      before,
      during,
      after,
      slowestProbeMs,
      seconds,
      lostFunctions: functions.filter((one) => !left.has(one)),
      planned,
      applied: (await listApplied(db)).filter((one) => !known.has(one)).map((one) => one.split(' ')[0] ?? ''),
    }
  } finally {
    await Promise.all(servers.map(stopServer))
  }
}

/** Sends requests that need no database to the running servers of the list, until it is stopped or none runs. */
function startProbe(servers: readonly Server[]): { stop: () => Promise<number> } {
  let isOver = false
  let slowestMs = 0
  const probing = (async () => {
    for (;;) {
      const running = servers.filter(({ process }) => process.exitCode === null)
      if (isOver || running.length === 0) return
      const sent = performance.now()
      await Promise.all(running.map(({ url }) => fetch(`${url}/healthz`).catch(() => null)))
      slowestMs = Math.max(slowestMs, performance.now() - sent)
      await sleep(10)
    }
  })()
  return {
    async stop() {
      isOver = true
      await probing
      return slowestMs
    },
  }
}

type User = Awaited<ReturnType<typeof import('./remote-user.ts').aRemoteUser>>

interface Load {
  user: User
  visit: (url: string, turn: number) => Promise<Response>
}

async function findRepositoryId(db: pg.Pool, path: string): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `select r.id from repository r join repository_group g on g.id = r.group_id where g.name || '/' || r.name = $1`,
    [path],
  )
  return rows[0]?.id ?? ''
}

/** Returns the functions that have a file in `migrations/functions`, with their parameters. */
async function listFunctions(db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ signature: string }>(
    // No statement can call a trigger function, although comments name it.
    `select p.oid::regprocedure::text as signature
       from applied_function f join pg_proc p on f.name = 'functions/' || p.proname || '.sql'
      where p.prorettype <> 'trigger'::regtype`,
  )
  return [...new Set(rows.map(({ signature }) => signature))]
}

/** Returns those of them that the sources in a folder name. Others are called by functions, triggers and views only. */
async function listCalledFunctions(db: pg.Pool, folder: string): Promise<string[]> {
  const paths = (await readdir(folder, { recursive: true })).filter((path) => path.endsWith('.ts'))
  const texts = await Promise.all(paths.map((path) => readFile(join(folder, path), 'utf8')))
  const words = new Set(texts.flatMap((text) => text.match(/\w+/g) ?? []))
  return (await listFunctions(db)).filter((signature) => words.has(signature.split('(')[0] ?? ''))
}

/** Returns the names of the applied files. That of a function is followed by its checksum. */
async function listApplied(db: pg.Pool): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select name from applied_migration union all select name || ' ' || checksum from applied_function`,
  )
  return rows.map(({ name }) => name)
}
