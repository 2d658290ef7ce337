import { randomBytes } from 'node:crypto'
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { deleteAccount } from '../../src/accounts/account-lifecycle.ts'
import { readConfig } from '../../src/config.ts'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { openDownloadCounter } from '../../src/packages/download-counter.ts'
import {
  deleteOldDownloads,
  type RecordedDownload,
  saveDownloads,
} from '../../src/packages/tables/recorded-downloads.ts'
import { buildApp } from '../../src/web/server/app.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aDeployToken, anAccount, aPersonalToken, aRepository, signIn } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import {
  addRecordedDownloads,
  holdDay,
  moveRecordedDownloads,
  recordedDownloads,
} from '../support/download-rows.ts'
import { anAccessToken, anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { aPublisher, basic, expand, type Publisher } from '../support/registry-actors.ts'
import { dropRows } from '../support/rows.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { aZip } from '../support/zip.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()
const svc = useCommands(t)

/** A public repository with a version, and the path of its archive. */
async function aVersion() {
  const repository = await aRepository(t.db, { visibility: 'public' })
  const publisher = await aPublisher(t, { repository })
  const { url } = (await publisher.push('1.0.0')).json<{ url: string }>()
  return { ...publisher, repository, dist: url.slice(`http://svc.test${publisher.path}`.length) }
}

const recordsOf = ({ repository }: Pick<Publisher, 'repository'>) => recordedDownloads(t.db, repository)

/** The `download` of each log line for an archive. */
const logged = (text: string) =>
  text
    .split('\n')
    .filter((line) => line.includes('"download":'))
    .map((line) => (JSON.parse(line) as { download: object }).download)

describe('downloads', () => {
  it('are recorded by day with the token of the request, and logged with its request', async () => {
    const version = await aVersion()
    const { repository, account, dist, ask } = version
    const today = await holdDay(t.db)
    const application = await anApplication(t.db, { scopes: ['registry-package:r'] })
    const authorization = await anAuthorization(t.db, account, application)
    const tokens = [
      version.token,
      await anAccessToken(t.db, authorization),
      // Another token of the same authorization, as after a refresh.
      await anAccessToken(t.db, authorization),
      await aDeployToken(t.db, repository.group, { name: 'ci', repositories: [repository] }),
    ]
    const before = logged(t.log()).length
    for (const token of tokens) {
      expect((await ask(dist, { headers: { authorization: basic(token) } })).statusCode).toBe(200)
    }
    expect((await ask(dist, { headers: { range: 'bytes=0-9' } })).statusCode).toBe(206)
    expect((await ask(dist, { headers: { authorization: undefined } })).statusCode).toBe(200)
    const cookie = await signIn(t.app, account)
    const page = `/${repository.path}/packages/acme/lib/-/download?version=1.0.0`
    expect((await t.app.inject({ url: page, headers: { cookie } })).statusCode).toBe(200)

    const list = ['version', 'downloads', repository.path, 'acme/LIB', '1.0.0']
    const listed = async () => (await svc.json<{ items: Record<string, unknown>[] }>(...list)).items.reverse()
    await expect.poll(async () => (await recordsOf(version)).length).toBe(5)
    const common = { day: today, repository: repository.path, package: 'acme/lib', version: '1.0.0' }
    const by = (kind: string, count: number, more: object) => ({
      ...{ ...common, by: kind, count, account: null, token_id: null, token: null, client_id: null },
      ...more,
    })
    const { username } = account
    const items = await listed()
    expect(items).toHaveLength(5)
    expect(items).toEqual(
      expect.arrayContaining([
        by('personal', 2, { account: username, token_id: expect.any(String), token: expect.any(String) }),
        by('access', 2, { account: username, client_id: application.clientId }),
        by('deploy', 1, { token_id: expect.any(String), token: 'ci' }),
        by('anonymous', 1, {}),
        by('session', 1, { account: username }),
      ]),
    )
    const lines = logged(t.log()).slice(before)
    const ids = { package: 'acme/lib', version: '1.0.0' }
    const idOf = (kind: string) => items.find((item) => item['by'] === kind)?.['token_id']
    const personal = { ...ids, by: 'personal', account_id: account.id, token_id: idOf('personal') }
    const access = { ...ids, by: 'access', account_id: account.id, authorization_id: authorization.id }
    expect(lines).toEqual([
      personal,
      access,
      access,
      { ...ids, by: 'deploy', token_id: idOf('deploy') },
      personal,
      { ...ids, by: 'anonymous' },
      { ...ids, by: 'session', account_id: account.id },
    ])
  })

  it('are those whose bytes are sent: not HEAD, not 304, and nothing that is refused', async () => {
    const version = await aVersion()
    const { ask, dist } = version
    const etag = String((await ask(dist, { method: 'HEAD' })).headers.etag)
    expect((await ask(dist, { headers: { 'if-none-match': etag } })).statusCode).toBe(304)
    expect((await ask(dist, { headers: { range: 'bytes=999999-' } })).statusCode).toBe(416)
    expect((await ask(dist.replace('1.0.0', '2.0.0'))).statusCode).toBe(404)
    await ask(dist)
    await expect.poll(() => recordsOf(version)).toEqual([['personal', 1]])
  })

  it('of packages from upstreams are recorded too', async () => {
    const caller = await aCaller(t)
    await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public' })
    upstream.offer('up/lib', ['1.0.0'])
    const zip = aZip({ 'composer.json': '{"name":"up/lib"}', 'data.bin': randomBytes(300_000) })
    upstream.fail('/archives/up/lib/1.0.0.zip', (_, response) => {
      // In three parts, so that the first client gets the bytes while they arrive.
      response.writeHead(200).write(zip.subarray(0, 100_000))
      setTimeout(() => response.write(zip.subarray(100_000, 200_000)), 100)
      setTimeout(() => response.end(zip.subarray(200_000)), 600)
    })
    const [entry] = expand((await caller.ask('p2/up/lib.json')).body, 'up/lib')
    const { url } = { ...(entry?.['dist'] as object) } as { url: string }
    // The second one is sent from the store.
    for (let i = 0; i < 2; i += 1) {
      expect((await caller.ask(url.slice(`http://svc.test${caller.path}`.length))).statusCode).toBe(200)
    }
    await expect.poll(() => recordsOf(caller)).toEqual([['personal', 2]])
  })

  it('are written when the process stops', async () => {
    const version = await aVersion()
    const config = readConfig({ BASE_URL: 'http://svc.test', DATA_DIR: t.config.dataDir })
    const app = await buildApp({ config, db: t.db }, openLog('silent'))
    const { path, dist, authorization } = version
    await app.inject({ url: path + dist, headers: { authorization } })
    await app.close()
    expect(await recordsOf(version)).toEqual([['personal', 1]])
  })

  it('are bounded in memory, and the log says how many were lost', async () => {
    const lines: string[] = []
    const stream = new PassThrough().on('data', (chunk: Buffer) => lines.push(chunk.toString()))
    const downloads = openDownloadCounter(t.db, openLog('info', stream))
    const repository = await aRepository(t.db)
    for (let i = 0; i < 10_003; i += 1) {
      downloads.record({
        repositoryId: repository.id,
        packageName: 'acme/lib',
        version: '1.0.0',
        downloader: { kind: 'personal', id: String(i), accountId: null },
      })
    }
    await downloads.flush()
    expect(await recordsOf({ repository })).toHaveLength(10_000)
    expect(lines.join('')).toContain('"downloads":3')
  })

  it('are removed with the events of their time', async () => {
    const version = await aVersion()
    // A sweep begins with the oldest records.
    await dropRows(t.db, 'recorded_download')
    // For a transaction, the day stays the one in which it began.
    await transaction(t.db, async (tx) => {
      await addRecordedDownloads(tx, version.repository, [31, 30])
      const sweep = (days: string) => deleteOldDownloads(tx, 100, readConfig({ EVENT_RETENTION_DAYS: days }))
      expect([await sweep('31'), await sweep('30')]).toEqual([0, 1])
      expect(await recordedDownloads(tx, version.repository)).toHaveLength(1)
    })
  })

  it('keep no name of a deleted account', async () => {
    const version = await aVersion()
    const reader = await anAccount(t.db)
    const token = await aPersonalToken(t.db, reader, { scopes: ['registry-package:r'] })
    await version.ask(version.dist, { headers: { authorization: basic(token) } })
    await expect.poll(() => recordsOf(version)).toHaveLength(1)
    const { path } = version.repository
    const own = await svc.run('version', 'downloads', path, '--account', reader.username)
    expect(own.stdout).toMatch(
      new RegExp(
        `^\\d{4}-\\d\\d-\\d\\d {2}1x {2}${path} {2}acme/lib {2}1\\.0\\.0 {2}${reader.username} with token `,
      ),
    )
    await deleteAccount(t.db, operator, reader, 'refuse')
    expect((await svc.run('version', 'downloads', path)).stdout).toContain('deleted account with token')
  })
})

describe('svc version downloads', () => {
  it('lists in parts and by day, and needs a repository or an account', async () => {
    const { repository, dist, ask } = await aVersion()
    const today = await holdDay(t.db)
    await ask(dist)
    await ask(dist, { headers: { authorization: undefined } })
    await expect.poll(() => recordsOf({ repository })).toHaveLength(2)
    const list = (...words: string[]) =>
      svc.json<{ items: { by: string }[]; next: string | null }>(
        'version',
        'downloads',
        repository.path,
        ...words,
      )
    const first = await list('--limit', '1')
    const second = await list('--limit', '1', '--after', String(first.next))
    expect([...first.items, ...second.items].map((item) => item.by).sort()).toEqual(['anonymous', 'personal'])
    expect(second.next).toBe(null)
    expect((await list('--since', today)).items).toHaveLength(2)
    expect((await list('--until', '2020-01-31')).items).toEqual([])
    expect(await svc.fail('version', 'downloads')).toContain('Name a repository')
    expect(await svc.fail('version', 'downloads', repository.path, '--since', '2027-02-31')).toContain(
      'a day such as',
    )
  })

  it('lists what the package, the version, the account and the days select, with the sum of each day', async () => {
    const { repository, account } = await aVersion()
    await holdDay(t.db)
    const download = { repositoryId: repository.id, packageName: 'acme/lib', version: '1.0.0' }
    const bySession = { kind: 'session', id: account.id, accountId: account.id } as const
    const anonymous = { kind: 'anonymous', id: '0', accountId: null } as const
    const save = (...downloads: RecordedDownload[]) => saveDownloads(t.db, downloads)
    await save({ ...download, version: '2.0.0', downloader: anonymous, count: 1 })
    await moveRecordedDownloads(t.db, '2.0.0', '2026-01-05')
    await save(
      { ...download, downloader: bySession, count: 2 },
      { ...download, packageName: 'acme/other', downloader: anonymous, count: 1 },
    )
    await save({ ...download, downloader: bySession, count: 3 })
    const list = async (...words: string[]) => {
      const about = ['version', 'downloads', repository.path, ...words]
      const { items } = await svc.json<{ items: { package: string; version: string; count: number }[] }>(
        ...about,
      )
      return items.map((item) => `${item.package} ${item.version} ${item.count}x`)
    }
    expect(await list()).toEqual(['acme/other 1.0.0 1x', 'acme/lib 1.0.0 5x', 'acme/lib 2.0.0 1x'])
    expect(await list('acme/other')).toEqual(['acme/other 1.0.0 1x'])
    expect(await list('acme/lib', '2.0.0')).toEqual(['acme/lib 2.0.0 1x'])
    expect(await list('--account', account.username)).toEqual(['acme/lib 1.0.0 5x'])
    expect(await list('--until', '2026-01-05')).toEqual(['acme/lib 2.0.0 1x'])
    expect(await list('--since', '2026-01-06')).toEqual(['acme/other 1.0.0 1x', 'acme/lib 1.0.0 5x'])
    expect(await list('--since', '2026-01-05', '--until', '2026-01-05')).toHaveLength(1)
  })
})
