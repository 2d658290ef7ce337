import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openLocalStore } from '../../src/archives/local-store.ts'
import { listArchives, whileDeletionWaits } from '../support/archive-rows.ts'
import { useCommands } from '../support/commands.ts'
import { ageUnusedArchives } from '../support/garbage.ts'
import { countWaiting } from '../support/locks.ts'
import { makeDataDir, removeDataDir } from '../support/postgres.ts'
import { program } from '../support/program.ts'
import { aPackageZip } from '../support/registry-actors.ts'
import { runCommand } from '../support/run-command.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const commands = useCommands()
const upstream = useUpstream()
let dataDir: string

beforeAll(async () => {
  dataDir = await makeDataDir()
  await commands.json('account', 'create', 'ann')
  await commands.json('group', 'create', 'acme', '--owner', 'ann')
  await commands.json('repository', 'create', 'acme/php')
})
afterAll(() => removeDataDir(dataDir))

const environment = () => ({ ...commands.environment, ...upstreamsHere, DATA_DIR: dataDir })

async function svc(...words: string[]) {
  const { code, stdout, stderr } = await runCommand([...words, '--json'], environment())
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout)
}

/** Starts a command, and kills it when it is where `reached` says. Returns what it has printed. */
async function killed(words: string[], reached: () => Promise<unknown>): Promise<string> {
  const env = { PATH: process.env['PATH'], ...environment() }
  const child = spawn(process.execPath, [program, ...words], { env, stdio: ['ignore', 'pipe', 'ignore'] })
  let printed = ''
  child.stdout.on('data', (text: Buffer) => {
    printed += text.toString()
  })
  const ended = once(child, 'close')
  await reached()
  child.kill('SIGKILL')
  expect(await ended).toEqual([null, 'SIGKILL'])
  return printed
}

async function storedArchives(): Promise<string[]> {
  const stored: string[] = []
  for await (const { sha256 } of (await openLocalStore(dataDir)).list()) stored.push(sha256)
  return stored
}

// More than svc collect-garbage removes under one lock.
const versions = Array.from({ length: 25 }, (_, n) => `1.${n}.0`)

it('svc import that is killed keeps the versions that it has printed, and a second run imports the others', async () => {
  for (const version of versions)
    upstream.put(`/archives/acme/lib/${version}.zip`, aPackageZip('acme/lib', { description: version }))
  upstream.offer('acme/lib', versions)
  const last = `/archives/acme/lib/${versions.at(-1)}.zip`
  const half = new Promise<void>((resolve) => {
    upstream.fail(last, (_, response) => {
      response.writeHead(200, { 'content-length': 1000 }).write('x'.repeat(500), () => resolve())
    })
  })
  const words = ['import', upstream.url, 'acme/lib', '--into', 'acme/php']
  const printed = await killed(words, () => half)
  expect(printed.match(/: imported$/gm)).toHaveLength(24)
  expect(await svc('verify-archives')).toEqual({ archives: 24, problems: [] })
  upstream.fail(last, null)
  expect(await svc(...words)).toMatchObject({ imported: 1, already_there: 24, refused: 0 })
  expect(await svc('verify-archives')).toEqual({ archives: 25, problems: [] })
})

it('svc collect-garbage that is killed leaves no row without its archive, and a second run removes the others', async () => {
  await svc('group', 'delete', 'acme', '--with-repositories', '--force')
  // A collection goes in the order of the hashes.
  const all = (await storedArchives()).toSorted()
  const longAgo = new Date('2020-01-01T00:00:00Z')
  for (const name of all)
    await utimes(join(dataDir, 'archives', name.slice(0, 2), `${name}.zip`), longAgo, longAgo)
  await ageUnusedArchives(commands.db)
  await whileDeletionWaits(commands.db, all.at(-1) ?? '', () =>
    killed(['collect-garbage', '--force'], () => expect.poll(() => countWaiting(commands.db)).toBe(1)),
  )
  expect(await storedArchives()).toHaveLength(5)
  expect(await svc('verify-archives')).toEqual({ archives: 5, problems: [] })
  expect(await svc('collect-garbage', '--force')).toMatchObject({ archives: 5 })
  expect(await storedArchives()).toEqual([])
  expect(await listArchives(commands.db)).toEqual([])
})
