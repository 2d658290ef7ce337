import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aGroup, aGroupMember, anAccount, aPersonalToken, aRepository, signIn } from '../support/actors.ts'
import { authorizeLink, open, responseOf, submitConsent } from '../support/browse.ts'
import { exportsOf } from '../support/document-commands.ts'
import { useListeningApp } from '../support/listening.ts'
import { type ApplicationActor, anApplication } from '../support/oauth-actors.ts'
import { quickPhp } from '../support/php.ts'
import { freePort, paste } from '../support/program.ts'
import { has } from '../support/requires.ts'

/** The code blocks of a document in one language, in order. */
async function blocksOf(path: string, language: string): Promise<string[]> {
  const text = await readFile(path, 'utf8')
  return Array.from(text.matchAll(/^```(\w+)\n(.*?)^```$/gms))
    .filter(([, name]) => name === language)
    .map(([, , code = '']) => code)
}

describe.skipIf(!has('curl', 'php', 'bash'))('docs/oauth-applications.md (needs curl and php)', async () => {
  const port = await freePort()
  const t = useListeningApp(port)
  const redirectUri = 'https://app.example.com/callback'
  let home: string
  let application: ApplicationActor
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'svc-test-documents-'))
    application = await anApplication(t.db)
  })
  afterAll(() => rm(home, { recursive: true }))

  async function environment() {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const page = await open(t, authorizeLink(application, { redirect_uri: redirectUri }), cookie)
    const { code = '' } = responseOf(await submitConsent(t, page, cookie, 'approve'))
    return {
      SVC: `http://127.0.0.1:${port}`,
      CLIENT_ID: application.clientId,
      CLIENT_SECRET: application.clientSecret,
      REDIRECT_URI: redirectUri,
      CODE: code,
    }
  }

  it('has commands that run the flow without changes', async () => {
    const blocks = await blocksOf('docs/oauth-applications.md', 'sh')
    const commands = blocks.filter((block) => !/public\.json|device\.json/.test(block))
    const { code, stdout, stderr } = await paste(exportsOf(await environment()) + commands.join('\n'), home)
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain('"issuer"')
    expect(stdout).toContain('"username"')
    expect(stdout).toMatch(/\{\}\{"active":false\}$/)
    expect(JSON.parse(await readFile(join(home, 'tokens.json'), 'utf8'))).toMatchObject({
      token_type: 'bearer',
      expires_in: 28_800,
    })
  })

  it('has commands of a public client, which exchange, refresh and revoke', async () => {
    const verifier = randomBytes(32).toString('base64url')
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    const { clientId } = await anApplication(t.db, { isPublic: true, redirectUri })
    const cookie = await signIn(t.app, await anAccount(t.db))
    const pkce = { code_challenge: challenge, code_challenge_method: 'S256', redirect_uri: redirectUri }
    const page = await open(t, authorizeLink({ clientId }, pkce), cookie)
    const { code = '' } = responseOf(await submitConsent(t, page, cookie, 'approve'))
    const [block = ''] = (await blocksOf('docs/oauth-applications.md', 'sh')).filter((one) =>
      one.includes('public.json'),
    )
    const env = {
      SVC: `http://127.0.0.1:${port}`,
      CLIENT_ID: clientId,
      REDIRECT_URI: redirectUri,
      CODE: code,
      CODE_VERIFIER: verifier,
    }
    expect(await paste(exportsOf(env) + block, home)).toMatchObject({ code: 0, stdout: '{}', stderr: '' })
  })

  it('has commands of a device, which ask and poll', async () => {
    const { clientId } = await anApplication(t.db, { isPublic: true, isDevice: true })
    const blocks = await blocksOf('docs/oauth-applications.md', 'sh')
    const [begin = '', poll = ''] = blocks.filter((block) => block.includes('device.json'))
    const env = exportsOf({ SVC: `http://127.0.0.1:${port}`, CLIENT_ID: clientId })
    const begun = await paste(env + begin, home)
    expect(begun.stdout).toMatch(/^Open .*\/device and enter [A-Z]{4}-[A-Z]{4}\n$/)
    const { stdout: early } = await paste(env + poll, home)
    expect(JSON.parse(early).error).toBe('authorization_pending')
    const cookie = await signIn(t.app, await anAccount(t.db))
    const page = await open(t, `/device?user_code=${begun.stdout.trim().slice(-9)}`, cookie)
    await submitConsent(t, page, cookie, 'approve')
    const { stdout } = await paste(env + poll, home)
    expect(JSON.parse(stdout)).toMatchObject({ token_type: 'bearer', scope: 'account-profile:r' })
  })

  it('has a Node program that makes a link which svc accepts', async () => {
    const [program = ''] = await blocksOf('docs/oauth-applications.md', 'js')
    const env = { ...process.env, ...(await environment()) }
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '--eval', program],
      { env },
    )
    const cookie = await signIn(t.app, await anAccount(t.db))
    const { pathname, search } = new URL(stdout.trim())
    expect((await open(t, pathname + search, cookie)).body).toContain('Authorize')
  })

  it('has a PHP program that exchanges a code', async () => {
    const [program = ''] = await blocksOf('docs/oauth-applications.md', 'php')
    await writeFile(join(home, 'exchange.php'), program)
    const { stdout } = await paste(`${exportsOf(await environment())}php exchange.php`, home)
    expect(stdout).toMatch(/^svca_[0-9A-Za-z]{49}\n$/)
  })
})

describe.skipIf(!has('composer', 'php', 'unzip', 'curl', 'bash'))(
  'docs/packages.md (needs composer, php, unzip and curl)',
  async () => {
    const port = await freePort()
    const t = useListeningApp(port)
    let home: string
    beforeAll(async () => {
      home = await mkdtemp(join(tmpdir(), 'svc-test-documents-'))
    })
    afterAll(() => rm(home, { recursive: true }))

    it('has commands that publish and install a package without changes', async () => {
      const ann = await anAccount(t.db)
      const group = await aGroup(t.db)
      await aGroupMember(t.db, ann, group, 'developer')
      const { path } = await aRepository(t.db, { group })
      const variables = exportsOf({
        ...quickPhp(),
        REGISTRY: `http://127.0.0.1:${port}/${path}/-/packages/`,
        REGISTRY_HOST: `127.0.0.1:${port}`,
        SVC_TOKEN: await aPersonalToken(t.db, ann),
      })
      const [manifest = ''] = await blocksOf('docs/packages.md', 'json')
      // operating-documents.test.ts runs the commands for operators.
      const commands = (await blocksOf('docs/packages.md', 'sh')).filter((code) => !code.includes('npx svc'))
      const isOfPackage = (block: string) => /^composer archive|--upload-file/m.test(block)
      await mkdir(join(home, 'package/src'), { recursive: true })
      await mkdir(join(home, 'project'))
      await writeFile(join(home, 'package/composer.json'), manifest)
      await writeFile(
        join(home, 'package/src/Hello.php'),
        '<?php namespace Acme; class Hello { const WORDS = "Hello"; }',
      )
      await writeFile(
        join(home, 'project/composer.json'),
        '{"config": {"secure-http": false}, "repositories": {"packagist.org": false}}',
      )

      const commit =
        'git init --quiet && git -c user.name=Ann -c user.email=ann@example.com commit --quiet --allow-empty -m One'
      const pushed = await paste(
        `${variables}cd package\n${commit}\n${commands.filter(isOfPackage).join('\n')}`,
        home,
      )
      expect(pushed.code).toBe(0)
      expect(pushed.stdout.match(/"sha256":/g)).toHaveLength(4)
      const pulled = await paste(
        `${variables}cd project\n${commands.filter((block) => !isOfPackage(block)).join('\n')}
         php -r 'require "vendor/autoload.php"; echo Acme\\Hello::WORDS;'`,
        home,
      )
      expect([pulled.code, pulled.stdout]).toEqual([0, 'Hello'])
    })
  },
)

describe.skipIf(!has('curl', 'bash'))('docs/api.md (needs curl)', async () => {
  const port = await freePort()
  const t = useListeningApp(port)

  it('has commands that return what the document says', async () => {
    const home = await mkdtemp(join(tmpdir(), 'svc-test-documents-'))
    const ann = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, ann, group, 'admin')
    const { path } = await aRepository(t.db, { group })
    const scopes = ['account-profile:r', 'registry-manage:rw', 'registry-package:r']
    const variables = exportsOf({
      SVC: `http://127.0.0.1:${port}`,
      REPOSITORY: path,
      SVC_TOKEN: await aPersonalToken(t.db, ann, { scopes }),
    })
    const { code, stdout } = await paste(
      variables + (await blocksOf('docs/api.md', 'sh')).join('\necho\n'),
      home,
    )
    expect(code).toBe(0)
    const [error = ''] = await blocksOf('docs/api.md', 'json')
    const lines = stdout.split('\n')
    expect(lines[0]).toContain(`"username":"${ann.username}"`)
    expect(JSON.parse(lines[1] ?? '')).toEqual(JSON.parse(error))
    expect(lines[2]).toMatch(/^HTTP\/1.1 200/)
    await rm(home, { recursive: true })
  })
})
