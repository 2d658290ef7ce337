import { Session } from 'node:inspector/promises'
import { basename, dirname } from 'node:path'
import type { LightMyRequestResponse } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  aMember,
  aName,
  anAccount,
  aPersonalToken,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
  signIn,
} from './support/actors.ts'
import { aCaller } from './support/api-actors.ts'
import { useApp } from './support/app.ts'
import { authorizeLink, open, submitConsent } from './support/browse.ts'
import { aPackageZip, aPublisher, expand, type Publisher } from './support/registry-actors.ts'
import { anAuthorizedApplication, ask } from './support/token-client.ts'
import { upstreamsHere, useUpstream } from './support/upstream.ts'

type Send = () => Promise<LightMyRequestResponse>

const t = useApp(upstreamsHere)
const upstream = useUpstream({ 'security-advisories': { metadata: true, 'api-url': '/advisories' } })
const inspector = new Session()
let visitor: Awaited<ReturnType<typeof anAuthorizedApplication>>
let publisher: Publisher
let dist: string
let admin: { id: string; username: string; cookie: string; csrfToken: string; authorization: string }
let mirror: Awaited<ReturnType<typeof aCaller>> & { dist: string }

beforeAll(async () => {
  visitor = await anAuthorizedApplication(t, { scopes: ['account-profile:r'] })
  publisher = await aPublisher(t)
  dist = (await publisher.push('1.0.0')).json<{ url: string }>().url.split('/-/packages/')[1] ?? ''
  const account = await anAccount(t.db)
  await aMember(t.db, account, publisher.repository, 'admin')
  const token = await aPersonalToken(t.db, account, {
    scopes: ['registry-package:r', 'repo-basic-info:r', 'registry-package-delete:rw'],
  })
  const cookie = await signIn(t.app, account)
  const csrfToken = csrfTokenIn(await open(t, '/settings/account', cookie))
  admin = { ...account, cookie, csrfToken, authorization: `Bearer ${token}` }
  upstream.put('/advisories', { advisories: {} })
  mirror = await aMirror()
  inspector.connect()
  await inspector.post('Profiler.enable')
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
})
afterAll(() => inspector.disconnect())

/**
 * Returns the files of src/ in which a function runs during a request. The request is sent three times. The first one
 * warms the caches. The files of both others count, because a background job may run during one of them.
 */
async function filesOf(prepare: () => Promise<Send>): Promise<string[]> {
  await (await prepare())()
  const again = await measure(await prepare())
  const files = await measure(await prepare())
  return files.filter((path) => again.includes(path))
}

async function measure(send: Send): Promise<string[]> {
  await inspector.post('Profiler.takePreciseCoverage')
  const { statusCode } = await send()
  const { result } = await inspector.post('Profiler.takePreciseCoverage')
  expect(statusCode).toBeLessThan(400)
  return result
    .filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
    .flatMap(({ url }) => /^(?!.*node_modules).*?\/src\/([\w./-]+\.ts)/.exec(url)?.[1] ?? [])
    .sort()
}

/** A repository with an upstream, and the path of an archive that svc has mirrored. */
async function aMirror() {
  const caller = await aCaller(t)
  await caller.call('POST', '/upstreams', { url: upstream.url })
  return { ...caller, dist: await offerArchive(caller, 'ar/one') }
}

/** Offers a package at the upstream, and requests its metadata. Returns the path of its archive in svc. */
async function offerArchive(caller: Publisher, name: string): Promise<string> {
  upstream.offer(name, ['1.0.0'])
  const [entry] = expand((await caller.ask(`p2/${name}.json`)).body, name)
  const { url } = { ...(entry?.['dist'] as object) } as { url: string }
  return url.split('/-/packages/')[1] ?? ''
}

/** Returns the files of a folder, without its plugin, because every request of the feature uses that. */
function inRoom(files: readonly string[], room: string): string[] {
  return files.filter((path) => path.startsWith(`${room}/`) && path !== `${room}/plugin.ts`)
}

const session = () => signIn(t.app, visitor.account)
const get = (url: () => string) => async () => () => open(t, url(), admin.cookie)
/** Sends a form of a page as the signed-in administrator of the repository. */
const submit = (url: () => string, fields: () => Record<string, string | string[]>) => async () => () =>
  post(t.app, url(), admin.cookie, { csrf_token: admin.csrfToken, ...fields() })
const audit = (from: () => Publisher, packageName: string) => async () => () =>
  from().ask('security-advisories', {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: new URLSearchParams([['packages[]', packageName]]).toString(),
  })

function uploadForm(): FormData {
  const form = new FormData()
  form.append('csrf_token', admin.csrfToken)
  form.append('package', new Blob([new Uint8Array(aPackageZip('acme/lib'))]), 'lib.zip')
  return form
}

const getApi = (below: () => string) => async () => () =>
  t.app.inject({ url: `/api/repositories${below()}`, headers: { authorization: admin.authorization } })
let versions = 0
function nextVersion(): string {
  versions += 1
  return `2.0.${versions}`
}

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
  ['GET /login', 'accounts', async () => () => open(t, '/login')],
  ['the page of personal access tokens', 'accounts', get(() => '/settings/tokens')],
  [
    'the creation of a personal access token',
    'accounts',
    submit(
      () => '/settings/tokens',
      () => ({
        name: aName('token'),
        lifetime_in_days: '30',
        scope: ['registry-package:r'],
        resource_scope: 'all',
      }),
    ),
  ],
  ['GET packages.json', 'registry', async () => () => publisher.ask('packages.json')],
  ['GET p2/…', 'registry', async () => () => publisher.ask('p2/acme/lib.json')],
  ['GET dist/…', 'registry', async () => () => publisher.ask(dist)],
  ['GET search.json', 'registry', async () => () => publisher.ask('search.json?q=lib')],
  ['GET list.json', 'registry', async () => () => publisher.ask('list.json')],
  ['GET p2/… of an upstream', 'registry/upstreams', async () => () => mirror.ask('p2/ar/one.json')],
  ['GET dist/… of an upstream', 'registry/upstreams', async () => () => mirror.ask(mirror.dist)],
  ['the page of a package', 'pages', get(() => `/${publisher.repository.path}/packages/acme/lib`)],
  ['the page of a repository', 'pages', get(() => `/${publisher.repository.path}`)],
  ['the settings of a repository', 'pages', get(() => `/${publisher.repository.path}/-/settings`)],
  [
    'POST of the settings of a repository',
    'pages',
    submit(
      () => `/${publisher.repository.path}/-/settings`,
      () => ({ description: 'Libraries', visibility: 'private' }),
    ),
  ],
  ['the upload page', 'pages', get(() => `/${publisher.repository.path}/-/upload`)],
  ['the list of own repositories', 'pages', get(() => '/')],
  ['GET /api/repositories', 'api', getApi(() => '')],
  ['GET /api/…/packages/…', 'api', getApi(() => `/${publisher.repository.path}/packages/acme/lib`)],
  [
    'DELETE /api/…/packages/…/<version>',
    'api',
    async () => {
      const version = nextVersion()
      await publisher.push(version)
      return () =>
        t.app.inject({
          method: 'DELETE',
          url: `/api/repositories/${publisher.repository.path}/packages/acme/lib/${version}`,
          headers: { authorization: admin.authorization },
        })
    },
  ],
]

const wideRequests: typeof requests = [
  [
    'the first GET p2/… of a package of an upstream',
    'registry/upstreams',
    async () => {
      const name = `ar/${aName('new')}`
      upstream.offer(name, ['1.0.0'])
      return () => mirror.ask(`p2/${name}.json`)
    },
  ],
  [
    'the first GET dist/… of an upstream',
    'registry/upstreams',
    async () => {
      const path = await offerArchive(mirror, `ar/${aName('new')}`)
      return () => mirror.ask(path)
    },
  ],
  [
    'POST /login',
    'accounts',
    async () => {
      const form = await open(t, '/login')
      const fields = { csrf_token: csrfTokenIn(form), username: admin.username, password }
      return () => post(t.app, '/login', cookiesOf(form), fields)
    },
  ],
  ['POST security-advisories', 'registry', audit(() => publisher, 'acme/lib')],
  ['POST security-advisories with an upstream', 'registry', audit(() => mirror, 'ar/one')],
  [
    'POST of the upload page',
    'registry',
    async () => () => {
      const body = new Response(uploadForm())
      const headers = { cookie: admin.cookie, 'content-type': String(body.headers.get('content-type')) }
      return body.arrayBuffer().then((bytes) =>
        t.app.inject({
          method: 'POST',
          url: `/${publisher.repository.path}/-/upload`,
          headers,
          payload: Buffer.from(bytes),
        }),
      )
    },
  ],
]

/** Returns the names of the files by folder. Every request passes http/ and server/, so they belong to no feature. */
function byFolder(files: readonly string[]): Record<string, string[]> {
  const shared = ['.', 'http', 'server']
  const folders: Record<string, string[]> = {}
  for (const path of files) {
    const [folder, name] = [dirname(path), basename(path)]
    if (name !== 'plugin.ts' && !shared.includes(folder)) folders[folder] = [...(folders[folder] ?? []), name]
  }
  return folders
}

function expectFewFiles(files: readonly string[]): void {
  const crowded = Object.entries(byFolder(files)).filter(([, names]) => names.length > 6)
  expect(crowded).toEqual([])
}

describe('a request runs code of at most six files of its feature', () => {
  it.each(requests)('%s', async (_title, room, prepare) => {
    const all = await filesOf(prepare)
    expectFewFiles(all)
    const files = inRoom(all, room)
    expect(files).not.toEqual([])
    expect(files.slice(6), files.join(' ')).toEqual([])
  })
})

describe('a request that uses many folders runs code of at most six files in each', () => {
  it.each(wideRequests)('%s', async (_title, room, prepare) => {
    const files = await filesOf(prepare)
    expectFewFiles(files)
    const folders = Object.keys(byFolder(files)).filter((folder) => `${folder}/`.startsWith(`${room}/`))
    expect(folders.length).toBeGreaterThan(1)
  })

  it('an upload', async () => {
    const files = await filesOf(async () => {
      const version = nextVersion()
      return () => publisher.push(version)
    })
    expectFewFiles(files)
    const folders = Object.keys(byFolder(files)).filter((folder) => folder.startsWith('registry'))
    expect(folders.length).toBeGreaterThan(5)
  })
})
