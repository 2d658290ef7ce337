import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { clusterPaths, isAlive } from '../../src/database/embedded-postgres/cluster.ts'
import { readPostmaster } from '../../src/database/embedded-postgres/postmaster.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const program = `
  const { startTestPostgres } = await import('./test/support/postgres.ts')
  const { dataDir } = await startTestPostgres()
  console.log(dataDir)
  setInterval(() => {}, 1000)
`

describe('the PostgreSQL of a test run', () => {
  it.each(['SIGINT', 'SIGKILL'] as const)('ends when %s ends the run', async (signal) => {
    const words = ['--import', 'tsx', '--input-type=module', '--eval', program]
    const run = spawn(process.execPath, words, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
    const dataDir = await new Promise<string>((resolve) => {
      run.stdout.once('data', (text: Buffer) => resolve(text.toString().trim()))
    })
    const postmaster = await readPostmaster(clusterPaths(dataDir).cluster)
    expect(postmaster?.running).toBe(true)
    run.kill(signal)
    while (existsSync(dataDir) || isAlive(postmaster?.pid ?? 0)) await sleep(50)
  })
})
