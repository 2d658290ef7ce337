import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { collectGarbage } from '../../src/archives/collect-garbage.ts'
import { claimArchives } from '../../src/archives/store-claim.ts'
import { openArchiveStore } from '../../src/archives/store-owner.ts'
import { verifyArchives } from '../../src/archives/verify-archives.ts'
import { readConfig } from '../../src/config.ts'
import { csrfTokenIn, post, signIn } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { type TestApp, useApp } from '../support/app.ts'
import { changeInstallationId } from '../support/archive-rows.ts'
import { aComposerProject, hasComposerClient, useRegistries } from '../support/composer-project.ts'
import { dropDatabase, onServer } from '../support/database.ts'
import { useListeningApp } from '../support/listening.ts'
import { openTransaction, takeAdvisoryLock, untilWaiting } from '../support/locks.ts'
import { databaseUrl, freePort, runSvc } from '../support/program.ts'
import { aPackageZip, aPublisher } from '../support/registry-actors.ts'
import { has } from '../support/requires.ts'
import { runCommand } from '../support/run-command.ts'
import { credentials, startFaultyStore, startSwift } from '../support/swift.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { aZip } from '../support/zip.ts'

describe.runIf(has('swift-proxy-server'))('archives in object storage', async () => {
  const isHere = has('swift-proxy-server')
  const swift = isHere ? await startSwift() : null
  const store = swift && (await startFaultyStore(swift.endpoint))
  await swift?.makeBucket('packages')
  // This is also read where no test runs, because Swift is missing.
  const endpoint = store?.endpoint ?? 'http://127.0.0.1:1'
  const environment = {
    ARCHIVE_STORE: `s3://packages/svc?endpoint=${endpoint}&path_style=true`,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  }
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-bucket-'))
  const databases: string[] = []
  const t = useApp(environment)
  const upstream = useUpstream()
  const proxied = useApp({
    ...environment,
    ARCHIVE_DELIVERY: 'proxy',
    ARCHIVE_STORE: environment.ARCHIVE_STORE.replace('/svc?', '/proxied?'),
  })
  const port = await freePort()
  const listening = useListeningApp(port, environment)
  beforeEach(() => store?.fail('none'))
  afterAll(async () => {
    for (const database of databases) await dropDatabase({ ...t.connection, database })
    await store?.stop()
    await swift?.stop()
    await rm(folder, { recursive: true })
  })

  const here = (app: TestApp) => ({
    ...environment,
    ARCHIVE_STORE:
      app.config.archiveStore?.prefix === 'svc/'
        ? environment.ARCHIVE_STORE
        : environment.ARCHIVE_STORE.replace('/svc?', '/proxied?'),
    DATABASE_URL: databaseUrl(app.connection),
    DATA_DIR: app.config.dataDir,
  })

  async function aPublished(app: TestApp, size = 100) {
    const caller = await aCaller(app)
    // The text is random, so that it cannot be compressed.
    const text = Array.from({ length: size / 8 }, () => Math.random().toString(36).slice(2, 10)).join('')
    const payload = aPackageZip('acme/lib', { description: text.slice(0, 900), extra: { text } })
    const pushed = await caller.push('1.0.0', { payload })
    const { sha256, url } = pushed.json() as { sha256: string; url: string }
    return { ...caller, payload, pushed, sha256, below: url?.slice(`http://svc.test${caller.path}`.length) }
  }

  it('accepts a push, and redirects pulls to links that work, for ranges and HEAD too', async () => {
    const { pushed, ask, below, payload } = await aPublished(t)
    expect(pushed.statusCode).toBe(201)
    const pulled = await ask(below)
    expect([pulled.statusCode, pulled.headers['cache-control'], pulled.body]).toEqual([302, 'no-store', ''])
    const link = String(pulled.headers.location)
    const whole = await fetch(link)
    expect(Buffer.from(await whole.arrayBuffer()).equals(payload)).toBe(true)
    const part = await fetch(link, { headers: { range: 'bytes=0-3' } })
    expect([part.status, await part.text()]).toEqual([206, 'PK\u0003\u0004'])
    const head = await ask(below, { method: 'HEAD' })
    expect(head.statusCode).toBe(302)
    const size = await fetch(String(head.headers.location), { method: 'HEAD' })
    expect([size.status, size.headers.get('content-length')]).toEqual([200, String(payload.length)])
    expect(await readdir(join(t.config.dataDir, 'tmp'))).toEqual([])
  })

  it.runIf(hasComposerClient)(
    'lets the real Composer install through a link, without its credentials',
    async () => {
      const { path, token, repository, payload } = await aPublished(listening)
      const project = await aComposerProject()
      await useRegistries(project, listening.config.baseUrl, token, repository.path)
      store?.fail('none')
      const { code, output } = await project.composer('require', 'acme/lib')
      expect([code, output]).toEqual([0, output])
      // The server also reads its claim on the store, every 20 seconds.
      const pulls = store?.heads().filter((head) => /^GET \S*\.zip\?/.test(head)) ?? []
      expect(pulls).toHaveLength(1)
      expect(pulls[0]).toContain('X-Amz-Signature')
      expect(pulls[0]).not.toMatch(/^authorization:/im)
      expect(await project.read('composer.lock')).toContain(path)
      expect(payload.length).toBeGreaterThan(100)
      await project.remove()
    },
  )

  it('shows files, comparisons and downloads of archives in the bucket, and publishes from the browser', async () => {
    const { repository, account, push, ask } = await aPublisher(t)
    const zip = (line: string) =>
      aZip({ 'composer.json': '{"name":"acme/lib"}', 'src/A.php': `<?php // ${line}\n` })
    for (const version of ['1.0.0', '1.1.0']) {
      expect((await push(version, { payload: zip(`of ${version}`) })).statusCode).toBe(201)
    }
    const cookie = await signIn(t.app, account)
    const home = `/${repository.path}/packages/acme/lib/-`
    const look = (url: string) => t.app.inject({ url, headers: { cookie } })
    expect((await look(`${home}/files?version=1.0.0`)).body).toContain('src/')
    expect((await look(`${home}/files?version=1.0.0&path=src/A.php`)).body).toContain('// of 1.0.0')
    const compared = await look(`${home}/compare?from=1.0.0&to=1.1.0`)
    expect(compared.statusCode).toBe(200)
    expect(compared.body).toContain('src/A.php')

    const page = `/${repository.path}/-/upload`
    const csrf = csrfTokenIn(await look(page))
    const form = new FormData()
    form.append('csrf_token', csrf)
    form.append('package', new Blob([new Uint8Array(zip('of 2.0.0'))]), 'lib.zip')
    const body = new Response(form)
    const sent = await t.app.inject({
      method: 'POST',
      url: page,
      headers: { cookie, 'content-type': String(body.headers.get('content-type')) },
      payload: Buffer.from(await body.arrayBuffer()),
    })
    const preview = String(sent.headers.location)
    store?.fail('down')
    expect((await look(`${home}/files?version=1.1.0&path=src/A.php`)).statusCode).toBe(503)
    expect((await look(preview)).statusCode).toBe(503)
    store?.fail('none')
    expect((await look(`${preview}?version=2.0.0`)).body).toContain('Publish acme/lib 2.0.0')
    const published = await post(t.app, preview, cookie, {
      csrf_token: csrf,
      act: 'publish',
      version: '2.0.0',
    })
    expect(published.statusCode).toBe(303)
    expect((await ask('p2/acme/lib.json')).body).toContain('"2.0.0"')
    expect((await look(`${home}/files?version=2.0.0&path=src/A.php`)).body).toContain('// of 2.0.0')
    expect(await readdir(join(t.config.dataDir, 'tmp'))).toEqual([])
  })

  it.each(['down', 'silent', '503'] as const)('is not ready while the store is %s', async (fault) => {
    expect((await t.app.inject('/readyz')).statusCode).toBe(200)
    store?.fail(fault)
    const refused = await t.app.inject('/readyz')
    expect([refused.statusCode, refused.json().reason]).toEqual([503, 'the archive store does not respond'])
    store?.fail('none')
    expect((await t.app.inject('/readyz')).statusCode).toBe(200)
  })

  it('sends no link to a client that may not pull', async () => {
    const { ask, below } = await aPublished(t)
    const refused = await ask(below, { headers: { authorization: undefined } })
    expect([refused.statusCode, refused.headers.location]).toEqual([401, undefined])
  })

  it('sends archives itself with ARCHIVE_DELIVERY=proxy, whole and in part', async () => {
    const { ask, below, payload } = await aPublished(proxied)
    const whole = await ask(below)
    expect([whole.statusCode, whole.rawPayload.equals(payload)]).toEqual([200, true])
    const part = await ask(below, { headers: { range: 'bytes=2-5' } })
    expect([part.statusCode, part.rawPayload.equals(payload.subarray(2, 6))]).toEqual([206, true])
    const head = await ask(below, { method: 'HEAD' })
    expect([head.statusCode, head.headers['content-length']]).toEqual([200, String(payload.length)])
    expect((await ask(below, { headers: { range: `bytes=${payload.length}-` } })).statusCode).toBe(416)
  })

  it.each(['down', '500', '503'] as const)(
    'responds with 503 to pushes and pulls while the store is %s, and loses nothing',
    async (fault) => {
      const { ask, below, path, push } = await aPublished(proxied)
      store?.fail(fault)
      const pulled = await ask(below)
      expect([pulled.statusCode, pulled.headers['retry-after'], pulled.json().errcode]).toEqual([
        503,
        '5',
        14,
      ])
      const pushed = await push('2.0.0', { manifest: { description: fault } })
      expect([pushed.statusCode, pushed.headers['retry-after']]).toEqual([503, '5'])
      store?.fail('none')
      const document = await ask('p2/acme/lib.json')
      expect(document.json().packages['acme/lib']).toHaveLength(1)
      expect((await ask(below)).statusCode).toBe(200)
      expect((await push('2.0.0', { manifest: { description: fault } })).statusCode).toBe(201)
      expect(path).toBeTruthy()
    },
  )

  it('responds with 503 to an upload while the store is silent, before clients and proxies give up', async () => {
    const { push } = await aCaller(t)
    store?.fail('silent')
    const pushed = await push('1.0.0')
    expect([pushed.statusCode, pushed.headers['retry-after']]).toEqual([503, '5'])
    // It has sent one request, and waited for it: each one more would take 8 seconds more.
    const ofArchives = store?.heads().filter((head) => /^\S+ \S*\.zip /.test(head))
    expect(ofArchives).toEqual([expect.stringMatching(/^HEAD /)])
  })

  it('responds with 507 to a push while the store is full', async () => {
    const { push } = await aCaller(t)
    store?.fail('full', 'PUT')
    const pushed = await push('1.0.0')
    expect([pushed.statusCode, pushed.json().errcode]).toEqual([507, 8])
    store?.fail('none')
    expect((await push('1.0.0')).statusCode).toBe(201)
  })

  it('never ends a truncated archive normally when the store loses the connection', async () => {
    const { ask, below, payload } = await aPublished(proxied, 60_000)
    store?.fail('cut', 'GET')
    const cut = await ask(below)
    expect(cut.statusCode).toBe(503)
    store?.fail('none')
    expect((await ask(below)).rawPayload.equals(payload)).toBe(true)
  })

  it('stores an archive again that a collection removed just before its version was stored', async () => {
    const caller = await aCaller(t)
    const payload = aPackageZip('acme/raced')
    const { sha256 } = (await caller.push('1.0.0', { name: 'acme/raced', payload })).json() as {
      sha256: string
    }
    await caller.call('DELETE', '/packages/acme/raced?purge=true')
    const other = await aCaller(t)
    const pushed = await whileCollected(sha256, () => other.push('1.0.0', { name: 'acme/raced', payload }))
    expect(pushed.statusCode).toBe(201)
    expect(await (await openArchiveStore(t.config)).stat(sha256)).not.toBeNull()
  })

  it('stores an archive of an import again that a collection removed just before its version was stored', async () => {
    upstream.offer('acme/brought', ['1.0.0'])
    const { repository } = await aCaller(t)
    const into = ['import', upstream.url, 'acme/brought', '--into', repository.path, '--json']
    const sha256 = createHash('sha256')
      .update(upstream.read('/archives/acme/brought/1.0.0.zip') ?? '')
      .digest('hex')
    const { stdout } = await whileCollected(sha256, () => runSvc(into, { ...here(t), ...upstreamsHere }))
    expect(JSON.parse(stdout)).toMatchObject({ imported: 1 })
    expect(await (await openArchiveStore(t.config)).stat(sha256)).not.toBeNull()
  })

  /** Starts a publication, and removes its archive like garbage collection before its version is stored. */
  async function whileCollected<Result>(sha256: string, publish: () => Promise<Result>): Promise<Result> {
    const archives = await openArchiveStore(t.config)
    const { tx, commit } = await openTransaction(t.db)
    await takeAdvisoryLock(tx, 7382002)
    const publishing = publish()
    await untilWaiting(t.db)
    await archives.remove(sha256, new Date(Date.now() + 60_000))
    await commit()
    return publishing
  }

  it('is verified and collected like a folder', async () => {
    const archives = await openArchiveStore(t.config)
    const { call, sha256 } = await aPublished(t)
    expect((await verifyArchives(t.db, archives)).problems).toEqual([])
    await call('DELETE', '/packages/acme/lib?purge=true')
    // The apps of this file share the bucket, although each has its own database. One of them may have the claim.
    await claimArchives(t.db, archives, { isForced: true })
    await collectGarbage(t.db, archives, { isForced: true })
    // The archive stays, because it was used a moment ago.
    expect(await archives.stat(sha256)).not.toBeNull()
    expect(await archives.remove(sha256, new Date(Date.now() + 60_000))).toBe(true)
    expect((await verifyArchives(t.db, archives)).problems).toEqual([])
  })

  it('is backed up and restored into a folder, and copied to a folder and back', async () => {
    const { sha256 } = await aPublished(proxied)
    const file = join(folder, 'b.tar')
    const backup = await runCommand(['backup', file], here(proxied))
    expect([backup.code, backup.stderr]).toEqual([0, ''])
    const database = `${t.connection.database}_bucket`
    await onServer(t.connection, `create database ${database}`)
    databases.push(database)
    const local = await mkdtemp(join(folder, 'local-'))
    const environmentOfLocal = { DATABASE_URL: databaseUrl({ ...t.connection, database }), DATA_DIR: local }
    const restored = await runCommand(['restore', file, '--json'], environmentOfLocal)
    expect([restored.code, JSON.parse(restored.stdout).problems]).toEqual([0, []])

    await swift?.makeBucket('restored')
    await onServer(t.connection, `create database ${database}2`)
    databases.push(`${database}2`)
    const bucketEnvironment = {
      ...here(proxied),
      DATABASE_URL: databaseUrl({ ...t.connection, database: `${database}2` }),
      DATA_DIR: await mkdtemp(join(folder, 'bucket-')),
      ARCHIVE_STORE: environment.ARCHIVE_STORE.replace('packages/svc', 'restored'),
    }
    const intoBucket = await runCommand(['restore', file, '--json'], bucketEnvironment)
    expect([intoBucket.code, JSON.parse(intoBucket.stdout).problems]).toEqual([0, []])
    // The received files must not fill the local disk.
    expect(await readdir(join(bucketEnvironment.DATA_DIR, 'tmp'))).toEqual([])

    const copied = join(folder, 'copied')
    const out = await runCommand(['archives', 'copy', '--to', copied, '--json'], here(proxied))
    expect(out.code).toBe(0)
    const names = (await readdir(copied, { recursive: true })).filter((name) => name.endsWith('.zip'))
    expect(names).toContain(join('archives', sha256.slice(0, 2), `${sha256}.zip`))
    const again = await runCommand(['archives', 'copy', '--to', copied, '--json'], here(proxied))
    expect(JSON.parse(again.stdout)).toMatchObject({ archives: 0, known: names.length, damaged: [] })

    await swift?.makeBucket('back')
    const back = environment.ARCHIVE_STORE.replace('packages/svc', 'back')
    const toBucket = { ...here(proxied), ARCHIVE_STORE: '', DATA_DIR: copied }
    const up = await runCommand(['archives', 'copy', '--to', back, '--json'], toBucket)
    expect(JSON.parse(up.stdout)).toMatchObject({ archives: names.length, damaged: [] })
    const verified = await runCommand(['verify-archives', '--json'], {
      ...here(proxied),
      ARCHIVE_STORE: back,
    })
    expect(JSON.parse(verified.stdout)).toEqual({ archives: names.length, problems: [] })
  })

  it('is used with the temporary keys of a role, for requests and links', async () => {
    const { sha256, payload } = await aPublished(proxied)
    let requests = 0
    const agent = createServer((request, response) => {
      requests += 1
      const Expiration = new Date(Date.now() + 3_600_000).toISOString()
      const { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey } = credentials
      const isAllowed = request.headers.authorization === 'agent'
      response.writeHead(isAllowed ? 200 : 403)
      response.end(JSON.stringify({ AccessKeyId, SecretAccessKey, Token: 'of the role', Expiration }))
    }).listen(0, '127.0.0.1')
    await once(agent, 'listening')
    const role = {
      ARCHIVE_STORE: here(proxied).ARCHIVE_STORE,
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${(agent.address() as AddressInfo).port}/keys`,
      AWS_CONTAINER_AUTHORIZATION_TOKEN: 'agent',
    }
    const { AWS_ACCESS_KEY_ID: _id, AWS_SECRET_ACCESS_KEY: _secret, ...withoutKeys } = here(proxied)
    const verified = await runCommand(['verify-archives', '--json'], { ...withoutKeys, ...role })
    expect([verified.code, JSON.parse(verified.stdout).problems, requests]).toEqual([0, [], 1])
    const link = await (await openArchiveStore(readConfig(role))).link(sha256, {
      method: 'GET',
      fileName: 'x.zip',
    })
    const linked = await fetch(link)
    expect(Buffer.from(await linked.arrayBuffer()).equals(payload)).toBe(true)
    const refused = await runCommand(['verify-archives'], {
      ...withoutKeys,
      ...role,
      AWS_CONTAINER_AUTHORIZATION_TOKEN: 'other',
    })
    expect(refused.stderr).toMatch(
      /^svc: the archive store does not respond: the keys of .* responds with 403/,
    )
    agent.close()
  })

  it('is copied into another bucket by the store, without passing through this machine', async () => {
    const { payload, sha256 } = await aPublished(proxied)
    await swift?.makeBucket('second')
    const second = environment.ARCHIVE_STORE.replace('packages/svc', 'second/at')
    store?.fail('none')
    const copied = await runCommand(['archives', 'copy', '--to', second, '--json'], here(proxied))
    const { archives, unchecked, damaged } = JSON.parse(copied.stdout)
    expect([copied.code, damaged, unchecked]).toEqual([0, [], archives])
    const heads = store?.heads() ?? []
    const ofArchives = heads.filter((head) => /^(?:GET|PUT) \S*\.zip /.test(head))
    expect(ofArchives).toHaveLength(archives)
    for (const head of ofArchives) expect(head).toMatch(/^PUT .*x-amz-copy-source: \/packages\/proxied\//is)
    const there = await openArchiveStore(readConfig({ ...environment, ARCHIVE_STORE: second }))
    const stored = await there.read(sha256)
    expect(Buffer.concat((await stored?.bytes.toArray()) ?? []).equals(payload)).toBe(true)
    const again = await runCommand(['archives', 'copy', '--to', second], here(proxied))
    expect(again.stdout).toBe(`Copied 0 archives of 0 bytes. ${archives} were there already.\n`)
  })

  it('is repaired from a folder, and repairs a folder', async () => {
    const { sha256 } = await aPublished(proxied)
    const copied = join(folder, 'repair')
    expect((await runCommand(['archives', 'copy', '--to', copied], here(proxied))).code).toBe(0)
    const archives = await openArchiveStore(proxied.config)
    await archives.remove(sha256, new Date(Date.now() + 60_000))
    const repair = async (from: string, environmentOfStore: Record<string, string>) => {
      const words = ['verify-archives', '--repair', '--from', from, '--json']
      const { code, stdout } = await runCommand(words, environmentOfStore)
      return { code, repaired: JSON.parse(stdout).repaired }
    }
    expect(await repair(copied, here(proxied))).toMatchObject({
      code: 0,
      repaired: [{ sha256, from: copied }],
    })
    expect(await archives.stat(sha256)).not.toBeNull()

    await rm(join(copied, 'archives', sha256.slice(0, 2), `${sha256}.zip`))
    const ofFolder = { ...here(proxied), ARCHIVE_STORE: '', DATA_DIR: copied }
    expect(await repair(here(proxied).ARCHIVE_STORE, ofFolder)).toMatchObject({
      code: 0,
      repaired: [{ sha256, from: 's3://packages/proxied/' }],
    })
  })

  it('of another database is refused', async () => {
    await runCommand(['verify-archives'], here(t))
    const { code, stderr } = await runCommand(['verify-archives'], {
      ...here(t),
      DATABASE_URL: await aStranger(),
    })
    expect([code, stderr]).toEqual([1, expect.stringContaining('belong to the database with the id')])
  })

  it('without its bucket is reported at the start', async () => {
    const missing = environment.ARCHIVE_STORE.replace('packages', 'no-such-bucket')
    const { stderr } = await runSvc(['serve'], { ...here(t), ARCHIVE_STORE: missing })
    expect(stderr).toContain('There is no bucket no-such-bucket: check ARCHIVE_STORE.')
  })

  /** Creates a database with another id. */
  async function aStranger(): Promise<string> {
    const database = `${t.connection.database}_stranger`
    await onServer(t.connection, `create database ${database} template svc_template`)
    databases.push(database)
    const db = new pg.Pool({ ...t.connection, database })
    await changeInstallationId(db)
    await db.end()
    return databaseUrl({ ...t.connection, database })
  }
})
