import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { clusterPaths } from '../../src/database/embedded-postgres/cluster.ts'
import { readPostmaster } from '../../src/database/embedded-postgres/postmaster.ts'
import { paste, program } from '../support/program.ts'

let dataDir: string

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'svc-test-interrupt-'))
})
afterAll(async () => {
  const left = await readPostmaster(clusterPaths(dataDir).cluster)
  if (left?.running) process.kill(left.pid, 'SIGQUIT')
  await rm(dataDir, { recursive: true, maxRetries: 10, retryDelay: 200 })
})

it('a command whose output nobody reads stops the PostgreSQL that it started', async () => {
  const line = `DATA_DIR="${dataDir}" "${process.execPath}" "${program}" account list > /dev/full`
  const { code, stderr } = await paste(line, '/tmp')
  expect([code, stderr]).toEqual([1, 'svc: The output could not be written (ENOSPC).\n'])
  expect(await readPostmaster(clusterPaths(dataDir).cluster)).toBeNull()
})

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)(
  'a command that gets %s in the middle stops the PostgreSQL that it started',
  async (signal, code) => {
    const migrations = join(dataDir, 'migrations')
    await mkdir(migrations, { recursive: true })
    const sql = `do $$ begin raise warning 'until ${signal}'; perform pg_sleep(600); end $$;`
    await writeFile(join(migrations, '1000_sleep.sql'), sql)
    const child = spawn(process.execPath, [program, 'migrate'], {
      env: { PATH: process.env['PATH'], DATA_DIR: dataDir },
      stdio: 'ignore',
    })
    const ended = once(child, 'exit')
    const { cluster, log } = clusterPaths(dataDir)
    await expect.poll(() => readFile(log, 'utf8').catch(() => '')).toContain(`until ${signal}`)
    child.kill(signal)
    expect(await ended).toEqual([code, null])
    expect(await readPostmaster(cluster)).toBeNull()
  },
)
