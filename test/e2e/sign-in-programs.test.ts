import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { projectRoot } from '../../src/config.ts'
import { anAccount, signIn } from '../support/actors.ts'
import { followAndApprove } from '../support/browse.ts'
import { readBlocks } from '../support/document-commands.ts'
import { useListeningApp } from '../support/listening.ts'
import { type ApplicationActor, anApplication } from '../support/oauth-actors.ts'
import { hasPythonModule } from '../support/oauth-clients/python.ts'
import { freePort } from '../support/program.ts'
import { has } from '../support/requires.ts'

/** The program of a language: how it starts, and whether it can run here. */
interface Example {
  language: string
  file: string
  command: (file: string, address: string) => string[]
  isMissing: boolean
}

const examples: Example[] = [
  {
    language: 'js',
    // Node finds openid-client from here.
    file: resolve(projectRoot, `.built/sign-in-${process.pid}.mjs`),
    command: (file) => [process.execPath, file],
    isMissing: false,
  },
  {
    language: 'php',
    file: 'sign-in.php',
    command: (file, address) => ['php', '-S', address, file],
    isMissing: !has('php'),
  },
  {
    language: 'python',
    file: 'sign_in.py',
    command: (file) => ['/usr/bin/python3', file],
    isMissing: !hasPythonModule('authlib'),
  },
]

/** Code blocks that this file does not run, and why. */
const notRun: Record<string, string> = {
  sh: 'test/e2e/operating-documents.test.ts knows all shell commands',
  apache: 'test/e2e/apache.test.ts runs it',
  ruby: 'needs a GitLab, which is too large. Its keys are those of the documentation of GitLab, and a test below reads them',
}

const blocks = (await readBlocks()).filter(({ file }) => file === 'docs/sign-in-with-svc.md')
const textIn = (language: string) => blocks.find((block) => block.language === language)?.text ?? ''

const port = await freePort()
const t = useListeningApp(port)

describe('docs/sign-in-with-svc.md', () => {
  it('has no code that no test runs, except for GitLab', () => {
    const known = [...examples.map(({ language }) => language), ...Object.keys(notRun)]
    expect(blocks.map(({ language }) => language).toSorted()).toEqual(known.toSorted())
  })

  it('configures GitLab with what svc has', async () => {
    const text = textIn('ruby')
    const { authUrl } = t.config
    const metadata = (await t.app.inject('/.well-known/openid-configuration')).json()
    expect(text).toContain("issuer: 'https://svc.example.com'")
    expect(metadata.issuer).toBe(authUrl)
    const [, scopes = ''] = /scope: \[(.*)\]/.exec(text) ?? []
    expect(metadata.scopes_supported).toEqual(expect.arrayContaining(scopes.replaceAll("'", '').split(', ')))
    const [, method] = /client_auth_method: '(.*)'/.exec(text) ?? []
    expect(metadata.token_endpoint_auth_methods_supported).toContain(`client_secret_${method}`)
    const [, claim] = /uid_field: '(.*)'/.exec(text) ?? []
    expect(metadata.claims_supported).toContain(claim)
  })
})

describe.each(examples)('the program of docs/sign-in-with-svc.md in $language', (example) => {
  const { language, file, command, isMissing } = example
  describe.skipIf(isMissing)('(php and python3-authlib are needed)', () => {
    let folder: string
    let here: string
    let program: ChildProcess
    let application: ApplicationActor
    let account: { id: string; username: string }
    let cookie: string
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'svc-test-sign-in-'))
      const address = `127.0.0.1:${await freePort()}`
      here = `http://${address}`
      application = await anApplication(t.db, {
        scopes: ['openid', 'profile', 'email'],
        redirectUri: `${here}/callback`,
        exactRedirect: true,
      })
      account = await anAccount(t.db, { displayName: 'Ann', email: 'ann@example.com' })
      cookie = await signIn(t.app, account)
      const path = resolve(folder, file)
      await writeFile(path, textIn(language))
      const [name = '', ...words] = command(path, address)
      const env = {
        PATH: process.env['PATH'],
        SVC: t.config.authUrl,
        CLIENT_ID: application.clientId,
        CLIENT_SECRET: application.clientSecret,
        APP_URL: here,
        AUTHLIB_INSECURE_TRANSPORT: '1',
      }
      program = spawn(name, words, { cwd: folder, env, stdio: ['ignore', 'ignore', 'ignore'] })
      while (!(await isUp())) {
        if (program.exitCode !== null) throw new Error(`${name} ended with ${program.exitCode}`)
        await sleep(50)
      }
    })
    afterAll(async () => {
      if (program?.exitCode === null) {
        program.kill()
        await once(program, 'exit')
      }
      await rm(resolve(folder, file), { force: true })
      await rm(folder, { recursive: true })
    })
    const isUp = () =>
      fetch(here, { redirect: 'manual' }).then(
        () => true,
        () => false,
      )

    /** Begins a sign-in. Returns the URL to which the browser returns, and the cookie of the program. */
    async function begin() {
      const begun = await fetch(`${here}/login`, { redirect: 'manual' })
      expect(begun.status).toBe(302)
      const back = await followAndApprove(t, String(begun.headers.get('location')), cookie)
      return { back, own: String(begun.headers.get('set-cookie')).replace(/;.*/, '') }
    }
    const visit = async (url: URL, own = '') => {
      const response = await fetch(url, { headers: { cookie: own }, redirect: 'manual' })
      return { status: response.status, text: await response.text() }
    }

    it('signs people in', async () => {
      const { back, own } = await begin()
      expect(await visit(back, own)).toEqual({
        status: 200,
        text: `Hello Ann, your account is ${account.id}.\n`,
      })
      // The response works once.
      expect((await visit(back, own)).status).toBe(400)
    })

    it('refuses the response in another browser, of another server, and the code of another sign-in', async () => {
      const [{ back }, other] = [await begin(), await begin()]
      expect((await visit(back)).status).toBe(400)
      expect((await visit(back, other.own)).status).toBe(400)
      const [mixed, elsewhere] = [await begin(), await begin()]
      mixed.back.searchParams.set('code', back.searchParams.get('code') ?? '')
      expect((await visit(mixed.back, mixed.own)).status).toBe(400)
      elsewhere.back.searchParams.set('iss', 'https://other.example.com')
      expect((await visit(elsewhere.back, elsewhere.own)).status).toBe(400)
    })

    it('says that the person has denied', async () => {
      const { back, own } = await begin()
      back.searchParams.delete('code')
      back.searchParams.set('error', 'access_denied')
      const { status, text } = await visit(back, own)
      expect([status, text]).toEqual([400, expect.stringContaining('The sign-in failed: ')])
    })
  })
})
