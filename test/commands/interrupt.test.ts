import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { clusterPaths } from '../../src/database/embedded-postgres/cluster.ts'
import { readPostmaster } from '../../src/database/embedded-postgres/postmaster.ts'
import { paste, program, startServer } from '../support/program.ts'

let dataDir: string

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'svc-test-interrupt-'))
})
afterAll(async () => {
  const left = await readPostmaster(clusterPaths(dataDir).cluster)
  if (left?.running) process.kill(left.pid, 'SIGQUIT')
  await rm(dataDir, { recursive: true, maxRetries: 10, retryDelay: 200 })
})

const environment = () => ({ PATH: process.env['PATH'], DATA_DIR: dataDir })

it('a command whose output nobody reads stops the PostgreSQL that it started', async () => {
  const line = `DATA_DIR="${dataDir}" "${process.execPath}" "${program}" account list > /dev/full`
  const { code, stderr } = await paste(line, '/tmp')
  expect([code, stderr]).toEqual([1, 'svc: The output could not be written (ENOSPC).\n'])
  expect(await readPostmaster(clusterPaths(dataDir).cluster)).toBeNull()
})

/** Both signals come in the same moment for a program with this, however late a busy machine sends the second one. */
const stoppedClock = '--import data:text/javascript,const/**/now=Date.now();Date.now=()=>now'

it.each([
  ['SIGINT', 130, 'once'],
  // npx sends its copy of a Ctrl-C.
  ['SIGINT', 130, 'twice'],
  ['SIGTERM', 143, 'once'],
  ['SIGHUP', 129, 'once'],
] as const)(
  'a command that gets %s in the middle exits with %i and stops the PostgreSQL that it started (%s)',
  async (signal, code, times) => {
    const migrations = join(dataDir, 'migrations')
    await mkdir(migrations, { recursive: true })
    const sql = `do $$ begin raise warning 'until ${signal} ${times}'; perform pg_sleep(600); end $$;`
    await writeFile(join(migrations, '1000_sleep.sql'), sql)
    const child = spawn(process.execPath, [program, 'migrate'], {
      env: { ...environment(), NODE_OPTIONS: stoppedClock },
      stdio: 'ignore',
    })
    const ended = once(child, 'exit')
    const { cluster, log } = clusterPaths(dataDir)
    await expect.poll(() => readFile(log, 'utf8').catch(() => '')).toContain(`until ${signal} ${times}`)
    child.kill(signal)
    if (times === 'twice') setTimeout(() => child.kill(signal), 20)
    expect(await ended).toEqual([code, null])
    expect(await readPostmaster(cluster)).toBeNull()
  },
)

describe('while PostgreSQL starts', () => {
  let restored: string[] = []
  beforeAll(async () => {
    // PostgreSQL waits for this command before it is ready.
    const { cluster } = clusterPaths(dataDir)
    restored = [join(cluster, 'recovery.signal'), join(cluster, 'postgresql.auto.conf')]
    const [signalFile = '', settings = ''] = restored
    await writeFile(signalFile, '')
    await writeFile(settings, `restore_command = 'sleep 600'\n`)
    const { uid, gid } = await stat(cluster)
    for (const path of restored) await chown(path, uid, gid)
  })
  afterAll(() => Promise.all(restored.map((path) => rm(path, { force: true }))))

  it.each([
    ['migrate', 'SIGINT', 130],
    ['migrate', 'SIGHUP', 129],
    ['serve', 'SIGTERM', 0],
    ['serve', 'SIGHUP', 0],
  ] as const)('svc %s that gets %s stops it', async (command, signal, code) => {
    const child = spawn(process.execPath, [program, command], { env: environment(), stdio: 'ignore' })
    const ended = once(child, 'exit')
    const { cluster } = clusterPaths(dataDir)
    await expect.poll(() => readPostmaster(cluster)).toMatchObject({ running: true, ready: false })
    child.kill(signal)
    expect(await ended).toEqual([code, null])
    expect(await readPostmaster(cluster)).toBeNull()
  })
})

it('a server that exits at once tells its PostgreSQL to stop', async () => {
  const exit = join(dataDir, 'exit.cjs')
  await writeFile(exit, `process.on('SIGUSR2', () => process.exit(7))`)
  await rm(join(dataDir, 'migrations'), { recursive: true })
  const server = await startServer({ DATA_DIR: dataDir, NODE_OPTIONS: `--require ${exit}` })
  server.process.kill('SIGUSR2')
  expect((await server.outcome).code).toBe(7)
  await expect.poll(() => readPostmaster(clusterPaths(dataDir).cluster)).toBeNull()
})
