import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AccountActor, anAccount, signIn } from '../support/actors.ts'
import { followAndApprove, open, submitConsent } from '../support/browse.ts'
import { useListeningApp } from '../support/listening.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { type Environment, freePort, type Outcome } from '../support/program.ts'
import { has } from '../support/requires.ts'
import { works } from '../support/token-client.ts'

const scope = 'openid profile account-profile:r'

const programs = ['oidc-agent', 'oidc-gen', 'oidc-token']

describe.skipIf(!has(...programs))('oidc-agent (oidc-agent-cli is needed)', async () => {
  const port = await freePort()
  const t = useListeningApp(port)
  let home: string
  let env: Environment
  let account: AccountActor
  let cookie: string
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'svc-test-oidc-agent-'))
    await mkdir(join(home, '.oidc-agent'))
    env = { PATH: process.env['PATH'] ?? '', HOME: home, TMPDIR: home, ENCRYPTION: 'of what it stores' }
    const { socket, dpid } = JSON.parse((await run('oidc-agent', '--json')).stdout)
    env = { ...env, OIDC_SOCK: socket, OIDCD_PID: dpid }
    account = await anAccount(t.db)
    cookie = await signIn(t.app, account)
  })
  afterAll(async () => {
    await run('oidc-agent', '--kill')
    await rm(home, { recursive: true })
  })

  /** Starts a program. `printed` returns what it has printed so far. */
  function start(name: string, ...words: string[]) {
    const child = spawn(name, words, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const outcome: Outcome = { code: null, stdout: '', stderr: '' }
    for (const stream of ['stdout', 'stderr'] as const)
      child[stream].on('data', (text: Buffer) => {
        outcome[stream] += text.toString()
      })
    const ended = once(child, 'close').then(([code]) => ({ ...outcome, code: code as number | null }))
    return { ended, isRunning: () => child.exitCode === null, printed: () => outcome.stdout + outcome.stderr }
  }
  const run = (name: string, ...words: string[]) => start(name, ...words).ended

  /** Runs oidc-gen until it prints the text of an expression, and returns this text. */
  async function generate(expression: RegExp, ...words: string[]) {
    const options = ['--pw-env=ENCRYPTION', '--prompt=none', '--confirm-default', '--iss', t.config.authUrl]
    const program = start('oidc-gen', ...options, ...words)
    while (!expression.test(program.printed())) {
      if (!program.isRunning()) throw new Error(`oidc-gen ended: ${program.printed()}`)
      await sleep(20)
    }
    return { ...program, found: expression.exec(program.printed())?.[0] ?? '' }
  }
  const token = async (...words: string[]) => (await run('oidc-token', ...words)).stdout.trim()

  /** The agent has a token that works, renews it, and keeps its refresh token. */
  async function expectTokens(name: string) {
    const first = await token(name)
    expect([await works(t, first), await token(name)]).toEqual([true, first])
    const renewed = await token('--force-new', name)
    expect(renewed).toMatch(/^svca_/)
    expect(renewed).not.toBe(first)
    expect(await works(t, renewed)).toBe(true)
    expect(await token('--force-new', name)).toMatch(/^svca_/)
    // It asks for a token with fewer scopes.
    const narrow = await token('--scope', 'openid', name)
    expect([narrow, await works(t, narrow).catch(() => 'refused')]).toEqual([
      expect.stringMatching(/^svca_/),
      'refused',
    ])
  }

  it('gets and refreshes tokens of a confidential client with a code (OPENID 241, 243, 259)', async () => {
    const redirect = `http://localhost:${await freePort()}`
    const application = await anApplication(t.db, { scopes: scope.split(' '), redirectUri: redirect })
    const client = ['--client-id', application.clientId, '--client-secret', application.clientSecret]
    const flow = ['--flow=code', '--no-url-call', '--redirect-uri', redirect, '--scope', scope]
    const link = new RegExp(`${t.config.authUrl}/oauth2/auth\\S+`)
    const { found, ended } = await generate(link, ...flow, ...client, 'confidential')
    expect(new URL(found).searchParams.get('scope')).toBe(`${scope} offline_access`)
    const back = await followAndApprove(t, found, cookie)
    expect((await fetch(back)).status).toBe(200)
    expect((await ended).code).toBe(0)
    await expectTokens('confidential')
  })

  it('gets and refreshes tokens of a public client with a device code (OPENID 203, 221–225, 259)', async () => {
    const application = await anApplication(t.db, {
      scopes: scope.split(' '),
      redirectUri: 'http://localhost',
      isPublic: true,
      isDevice: true,
    })
    const line = `${application.clientId}@${t.config.authUrl}@${scope}\n`
    await writeFile(join(home, '.oidc-agent/pubclients.config'), line)
    const { found, ended } = await generate(
      /[A-Z]{4}-[A-Z]{4}/,
      '--pub',
      '--flow=device',
      '--scope',
      scope,
      'public',
    )
    await submitConsent(t, await open(t, `/device?user_code=${found}`, cookie), cookie, 'approve')
    expect((await ended).code).toBe(0)
    await expectTokens('public')
  })
})
