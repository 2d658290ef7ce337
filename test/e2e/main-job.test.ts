import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hasBrowser, useBrowser } from '../support/browser.ts'
import { useDatabase } from '../support/database.ts'
import { pixel } from '../support/oauth-actors.ts'
import { quickPhp } from '../support/php.ts'
import { makeDataDir, removeDataDir } from '../support/postgres.ts'
import {
  databaseUrl,
  freePort,
  paste,
  runSvc,
  type Server,
  startServer,
  stopServer,
} from '../support/program.ts'
import { aPackageZip, basic } from '../support/registry-actors.ts'
import { has } from '../support/requires.ts'
import { useThirdPartyApp } from '../support/third-party-app.ts'

const isComplete = hasBrowser && has('composer', 'php', 'unzip', 'curl', 'bash')
const [port, applicationPort] = [await freePort(), await freePort()]
const origin = `http://127.0.0.1:${port}`
const registry = `${origin}/acme/php/-/packages/`
const password = 'ann’s own password'

describe.skipIf(!isComplete)('the main job (needs chromium, composer, php, unzip and curl)', () => {
  const browser = useBrowser()
  const thirdParty = useThirdPartyApp(applicationPort, origin)
  let dataDir: string
  let home: string
  let server: Server
  let keys: readonly [id: string, secret: string]
  let accessToken = ''

  const environment = () => ({
    DATA_DIR: dataDir,
    MIGRATIONS_DIR: join(home, 'seeds'),
    PORT: String(port),
    BASE_URL: origin,
    LOG_LEVEL: 'warn',
  })
  const svc = async (line: string) => {
    const { code, stdout, stderr } = await runSvc(
      [...line.split(' '), '--json'],
      environment(),
      `${password}\n`,
    )
    if (code !== 0) throw new Error(`svc ${line}: ${stderr}`)
    return JSON.parse(stdout) as Record<string, string>
  }

  beforeAll(async () => {
    dataDir = await makeDataDir()
    home = await mkdtemp(join(tmpdir(), 'svc-test-home-'))
    await mkdir(join(home, 'seeds'))
    await writeFile(join(home, 'logo.png'), pixel)
    // The account is created before any server has run. The rest is created while one runs.
    await svc('account create ann --password-stdin')
    server = await startServer(environment())
    await svc('group create acme --owner ann')
    await svc('repository create acme/php')
    const about = '--name Publisher --website https://publisher.example.com --scope registry-package:rw'
    const more = `--redirect-uri ${thirdParty.redirectUri} --resource-scope all --logo ${home}/logo.png --apply`
    const { client_id = '', client_secret = '' } = await svc(`application new ${about} ${more}`)
    keys = [client_id, client_secret]
  })
  afterAll(async () => {
    await stopServer(server)
    await removeDataDir(dataDir)
    await rm(home, { recursive: true })
  })

  it('begins with a person who signs in and authorizes an application', async () => {
    const page = await browser.newPage()
    await page.goto(await thirdParty.begin(keys[0]))
    await page.getByLabel('Username or email').fill('ann')
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('button', { name: 'Authorize' }).click()
    await page.getByText('Back at the application').waitFor()
    const tokens = await thirdParty.finish(...keys)
    expect(tokens).toMatchObject({ token_type: 'bearer', expires_in: 28_800 })
    accessToken = tokens.access_token
  })

  it('pushes what composer archive made with that token, with curl and a netrc file (SPEC 4.6)', async () => {
    const manifest = {
      name: 'acme/greeter',
      autoload: { 'psr-4': { 'Acme\\': 'src/' } },
      archive: { exclude: ['auth.json', 'composer.lock', 'vendor'] },
    }
    const package_ = join(home, 'greeter')
    await mkdir(join(package_, 'src'), { recursive: true })
    await writeFile(join(package_, 'composer.json'), JSON.stringify(manifest))
    await writeFile(join(package_, 'auth.json'), '{}')
    await writeFile(
      join(package_, 'src/Greeter.php'),
      `<?php namespace Acme; class Greeter { const WORDS = 'Good morning'; }`,
    )
    await writeFile(join(home, '.netrc'), `machine 127.0.0.1\nlogin svc\npassword ${accessToken}\n`, {
      mode: 0o600,
    })
    const { code, stdout } = await paste(
      `cd greeter
       composer archive --format=zip --file=package
       unzip -l package.zip
       curl --silent --netrc -T package.zip ${registry}upload/acme/greeter/1.0.0
       curl --silent -u svc:svcp_wrong -T package.zip ${registry}upload/acme/greeter/1.1.0
       curl --silent --netrc -T package.zip ${registry}upload/acme/greeter/1.0`,
      home,
      quickPhp(),
    )
    expect(code).toBe(0)
    expect(stdout).not.toContain('auth.json')
    expect(stdout).toMatch(/"name":"acme\/greeter","version":"1\.0\.0","sha256":"[0-9a-f]{64}"/)
    expect(stdout).toContain('"errcode":16,"errmsg":"not authorized"')
    expect(stdout).toContain('"errcode":3,"errmsg":"validate [Version:1.0] failed"')
  })

  const run = `php -r 'require "vendor/autoload.php"; echo Acme\\Greeter::WORDS, PHP_EOL;'`

  it('pulls it with Composer and runs its code (SPEC 4.5)', async () => {
    const { code, stdout } = await paste(
      `composer config -g repo.packagist false
       composer config -g secure-http false
       composer config -g repositories.svc composer ${registry}
       composer config -g http-basic.127.0.0.1:${port} svc ${accessToken}
       mkdir project && cd project && echo '{}' > composer.json
       composer require acme/greeter:^1.0
       ${run}`,
      home,
      quickPhp(),
    )
    expect([code, stdout]).toEqual([0, 'Good morning\n'])
  })

  it('installs from the lock with an empty cache', async () => {
    const { code, stdout } = await paste(
      `cd project
       rm -rf vendor "$(composer config cache-dir)"
       composer install
       ${run}`,
      home,
      quickPhp(),
    )
    expect(code).toBe(0)
    expect(stdout).toMatch(/Good morning\n$/)
  })

  it('loses nothing when the server is killed in the middle of an upload', async () => {
    const archive = aPackageZip('acme/greeter')
    const authorization = basic(accessToken)
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(
      `PUT /acme/php/-/packages/upload/acme/greeter/2.0.0 HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n` +
        `Content-Length: ${archive.length}\r\n\r\n`,
    )
    socket.write(archive.subarray(0, archive.length / 2))
    await sleep(300)
    server.process.kill('SIGKILL')
    await server.outcome
    server = await startServer(environment())

    const headers = { authorization }
    const versions = async () => {
      const response = await fetch(`${registry}p2/acme/greeter.json`, { headers })
      const { packages } = (await response.json()) as { packages: Record<string, { version: string }[]> }
      return packages['acme/greeter']?.map(({ version }) => version)
    }
    expect(await versions()).toEqual(['1.0.0'])
    const url = `${registry}upload/acme/greeter/2.0.0`
    expect((await fetch(url, { method: 'PUT', headers, body: new Uint8Array(archive) })).status).toBe(201)
    expect(await versions()).toEqual(['2.0.0', '1.0.0'])
  })

  it('refuses a second start on its DATA_DIR, and says who holds it', async () => {
    const { code, stderr } = await runSvc(['serve'], { ...environment(), PORT: String(await freePort()) })
    expect(code).toBe(1)
    expect(stderr).toContain(`DATA_DIR ${dataDir} is in use by another svc (process ${server.process.pid}).`)
  })
})

describe('two processes on one DATABASE_URL and one DATA_DIR', () => {
  const database = useDatabase()
  const servers: Server[] = []
  let dataDir: string
  const environment = () => ({
    DATABASE_URL: databaseUrl(database.connection),
    DATA_DIR: dataDir,
    BASE_URL: 'https://svc.example.com',
    LOG_LEVEL: 'warn',
  })
  beforeAll(async () => {
    dataDir = await makeDataDir()
    servers.push(...(await Promise.all([startServer(environment()), startServer(environment())])))
  })
  afterAll(async () => {
    await Promise.all(servers.map(stopServer))
    await removeDataDir(dataDir)
  })

  it('are one service: both serve what one has received, and a revocation is effective on both', async () => {
    const svc = (line: string) => runSvc(line.split(' '), environment())
    await svc('account create ann')
    await svc('group create acme --owner ann')
    await svc('repository create acme/php')
    const made = await svc('token create ann --name ci --scope registry-package:rw --json')
    const { token } = JSON.parse(made.stdout) as { token: string }
    const [one, two] = servers.map(({ url }) => `${url}/acme/php/-/packages/`)
    const headers = { authorization: basic(token) }
    const body = new Uint8Array(aPackageZip('acme/lib'))

    const pushed = await fetch(`${one}upload/acme/lib/1.0.0`, { method: 'PUT', headers, body })
    expect(pushed.status).toBe(201)
    const { sha256 } = (await pushed.json()) as { sha256: string }
    const pulled = await fetch(`${two}dist/acme/lib/1.0.0/${sha256}.zip`, { headers })
    expect(new Uint8Array(await pulled.arrayBuffer())).toEqual(body)

    await svc('token revoke ann --name ci')
    for (const registry of [one, two]) {
      expect((await fetch(`${registry}packages.json`, { headers })).status).toBe(401)
    }
  })
})
