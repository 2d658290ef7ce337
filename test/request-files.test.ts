import { Session } from 'node:inspector/promises'
import type { LightMyRequestResponse } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aMember, anAccount, aPersonalToken, signIn } from './support/actors.ts'
import { useApp } from './support/app.ts'
import { authorizeLink, open, submitConsent } from './support/browse.ts'
import { aPublisher, type Publisher } from './support/registry-actors.ts'
import { anAuthorizedApplication, ask } from './support/token-client.ts'

type Send = () => Promise<LightMyRequestResponse>

const t = useApp()
const inspector = new Session()
let visitor: Awaited<ReturnType<typeof anAuthorizedApplication>>
let publisher: Publisher
let dist: string
let admin: { id: string; username: string; cookie: string; authorization: string }

beforeAll(async () => {
  visitor = await anAuthorizedApplication(t, { scopes: ['account-profile:r'] })
  publisher = await aPublisher(t)
  dist = (await publisher.push('1.0.0')).json<{ url: string }>().url.split('/-/packages/')[1] ?? ''
  const account = await anAccount(t.db)
  await aMember(t.db, account, publisher.repository, 'admin')
  const token = await aPersonalToken(t.db, account, {
    scopes: ['registry-package:r', 'repo-basic-info:r', 'registry-package-delete:rw'],
  })
  admin = { ...account, cookie: await signIn(t.app, account), authorization: `Bearer ${token}` }
  inspector.connect()
  await inspector.post('Profiler.enable')
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
})
afterAll(() => inspector.disconnect())

/**
 * Returns the files of src/ in which a function runs during a request. The request is sent twice and the second one is
 * measured: so caches are warm, and what still runs after an earlier request is that of the same kind of request.
 */
async function filesOf(prepare: () => Promise<Send>): Promise<string[]> {
  await (await prepare())()
  const send = await prepare()
  await inspector.post('Profiler.takePreciseCoverage')
  const { statusCode } = await send()
  const { result } = await inspector.post('Profiler.takePreciseCoverage')
  expect(statusCode).toBeLessThan(400)
  return result
    .filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
    .flatMap(({ url }) => /^(?!.*node_modules).*?\/src\/([\w./-]+\.ts)/.exec(url)?.[1] ?? [])
    .sort()
}

/** Returns the files of a folder, without its plugin, because every request of the feature uses that. */
function inRoom(files: readonly string[], room: string): string[] {
  return files.filter((path) => path.startsWith(`${room}/`) && path !== `${room}/plugin.ts`)
}

const session = () => signIn(t.app, visitor.account)
const get = (url: () => string) => async () => () => open(t, url(), admin.cookie)
const getApi = (below: () => string) => async () => () =>
  t.app.inject({ url: `/api/repositories${below()}`, headers: { authorization: admin.authorization } })
let versions = 0

const requests: [title: string, room: string, prepare: () => Promise<Send>][] = [
  [
    'GET /oauth2/auth',
    'oauth',
    async () => {
      const cookie = await session()
      return () => open(t, authorizeLink(visitor.application), cookie)
    },
  ],
  [
    'POST /oauth2/auth',
    'oauth',
    async () => {
      const cookie = await session()
      const page = await open(t, authorizeLink(visitor.application, { prompt: 'consent' }), cookie)
      return () => submitConsent(t, page, cookie, 'approve')
    },
  ],
  [
    'POST /oauth2/token with a code',
    'oauth',
    async () => {
      const code = await visitor.newCode()
      return () => visitor.exchange(code)
    },
  ],
  [
    'POST /oauth2/token with a refresh token',
    'oauth',
    async () => {
      const { refresh_token } = await visitor.tokens()
      return () => visitor.refresh(refresh_token)
    },
  ],
  [
    'POST /oauth2/introspect',
    'oauth',
    async () => {
      const { access_token } = await visitor.tokens()
      return () => ask(t, visitor.application, 'introspect', { token: access_token })
    },
  ],
  [
    'POST /oauth2/revoke',
    'oauth',
    async () => {
      const { access_token } = await visitor.tokens()
      return () => visitor.revoke(access_token)
    },
  ],
  ['GET packages.json', 'registry', async () => () => publisher.ask('packages.json')],
  ['GET p2/…', 'registry', async () => () => publisher.ask('p2/acme/lib.json')],
  ['GET dist/…', 'registry', async () => () => publisher.ask(dist)],
  ['the page of a package', 'pages', get(() => `/${publisher.repository.path}/packages/acme/lib`)],
  ['the page of a repository', 'pages', get(() => `/${publisher.repository.path}`)],
  ['the settings of a repository', 'pages', get(() => `/${publisher.repository.path}/-/settings`)],
  ['the list of own repositories', 'pages', get(() => '/')],
  ['GET /api/repositories', 'api', getApi(() => '')],
  ['GET /api/…/packages/…', 'api', getApi(() => `/${publisher.repository.path}/packages/acme/lib`)],
]

describe('a request runs code of at most six files of its feature', () => {
  it.each(requests)('%s', async (_title, room, prepare) => {
    const files = inRoom(await filesOf(prepare), room)
    expect(files).not.toEqual([])
    expect(files.slice(6), files.join(' ')).toEqual([])
  })
})

describe('an upload, which uses most folders of the registry', () => {
  it('runs code of at most eight files in a folder', async () => {
    const files = await filesOf(async () => {
      versions += 1
      const version = `2.0.${versions}`
      return () => publisher.push(version)
    })
    const counts: Record<string, number> = {}
    for (const path of files.filter((one) => one.startsWith('registry/'))) {
      const room = path.split('/').slice(0, -1).join('/')
      counts[room] = (counts[room] ?? 0) + 1
    }
    const { 'registry/archives': ofArchives = 0, 'registry/tables': ofTables = 0, ...others } = counts
    // Six files of the archives folder check the zip, and two store it. In the tables folder, each table has one file.
    expect(ofArchives, files.join(' ')).toBeLessThanOrEqual(8)
    expect(ofTables, files.join(' ')).toBeLessThanOrEqual(7)
    expect(Object.entries(others).filter(([, count]) => count > 6)).toEqual([])
    expect(Object.keys(others).length).toBeGreaterThan(3)
  })
})
