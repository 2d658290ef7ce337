import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hasBrowser, useBrowser } from '../support/browser.ts'
import { quickPhp } from '../support/php.ts'
import { makeDataDir, removeDataDir } from '../support/postgres.ts'
import {
  freePort,
  type Outcome,
  paste,
  runSvc,
  type Server,
  startServer,
  stopServer,
} from '../support/program.ts'
import { has } from '../support/requires.ts'

const isComplete = hasBrowser && has('composer', 'php', 'unzip', 'curl', 'bash')

let dataDir: string
let failed: Outcome
let server: Server
beforeAll(async () => {
  dataDir = await makeDataDir()
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const environment = { DATA_DIR: dataDir, LOG_LEVEL: 'warn', HOST: '127.0.0.1' }
  failed = await runSvc(['serve'], { ...environment, PORT: String((taken.address() as AddressInfo).port) })
  taken.close()
  server = await startServer(environment)
  while (!server.printed().includes('Hello::say')) await sleep(20)
})
afterAll(async () => {
  await stopServer(server)
  await removeDataDir(dataDir)
})

describe('a first start that fails', () => {
  it('makes no demo, because nobody would see its secrets: the next one makes it', () => {
    expect([failed.code, failed.stdout]).toEqual([1, ''])
    expect(server.printed()).toContain('Hello::say')
  })
})

describe.skipIf(!isComplete)('the first start (needs chromium, composer, php, unzip and curl)', () => {
  const browser = useBrowser()
  let home: string
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'svc-test-home-'))
  })
  afterAll(() => rm(home, { recursive: true }))

  it('prints commands that do the main job when they are pasted as they are', async () => {
    // Another run of the tests may use the port of the walk at the same time.
    const port = String(await freePort())
    const walk = server
      .printed()
      .replace(/^svc listens on .*\n/, '')
      .replaceAll(/(?<=:|%3A|listen\()8123/g, port)
    const [link = ''] = /http:\S*\/oauth2\/auth\S*/.exec(walk) ?? []
    const [, password = ''] = /password {2}(\S+)/.exec(walk) ?? []
    const pasted = paste(walk, home, quickPhp())

    const page = await browser.newPage()
    await page.goto(link)
    await page.getByLabel('Username or email').fill('demo')
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    // The listener must run before the click, because the browser does not retry.
    while (!(await fetch(`http://127.0.0.1:${port}`).catch(() => null))?.ok) await sleep(20)
    await page.getByRole('button', { name: 'Authorize' }).click()
    await page.getByText('Back to the shell.').waitFor()

    const { code, stdout, stderr } = await pasted
    expect(stderr).not.toMatch(/error/i)
    expect(code).toBe(0)
    expect(stdout).toMatch(/"access_token":"svca_[0-9A-Za-z]{49}"/)
    expect(stdout).toMatch(/"sha256":"[0-9a-f]{64}"/)
    expect(stdout).toMatch(/Hello from demo\/php\n$/)

    // The page after the sign-in leads to packages with a life of their own.
    const { origin } = new URL(link)
    await page.goto(origin)
    await page.getByRole('heading', { name: 'A walk through the demo' }).waitFor()
    await page.getByRole('link', { name: 'demo/greeting' }).first().click()
    await page.getByRole('heading', { name: 'demo/greeting' }).waitFor()
    await page.goto(`${origin}/demo/php/packages/example/log`)
    await page.getByRole('heading', { name: 'example/log' }).waitFor()
  })

  it('has packages that install, one of them from an upstream that does not exist', async () => {
    const walk = server.printed()
    const settings = /^composer config .*$/gm
    const { code, stderr } = await paste(
      [
        /^TOKEN=.*$/m.exec(walk)?.[0],
        'cd "$(mktemp -d)" && echo \'{}\' > composer.json',
        ...(walk.match(settings) ?? []),
        'composer require demo/report',
        'composer audit',
      ].join('\n'),
      home,
      quickPhp(),
    )
    expect(stderr).toMatch(/Installing example\/log \(3\.1\.0\)/)
    expect(stderr).toContain('No security vulnerability advisories found')
    expect(code).toBe(0)
  })

  it('is followed by starts that keep the data, and print no secret again', async () => {
    await stopServer(server)
    server = await startServer({ DATA_DIR: dataDir, LOG_LEVEL: 'warn' })
    await sleep(200)
    expect(server.printed()).toBe(`svc listens on ${server.url.replace('127.0.0.1', 'localhost')}\n`)
  })
})
