import { anAccount, password } from '../test/support/actors.ts'
import { aCode, anApplication, anAuthorization } from '../test/support/oauth-actors.ts'
import { aPackageZip } from '../test/support/registry-actors.ts'
import { signInOver } from '../test/support/signed-in.ts'
import { fill, largePackage, type Sizes } from './large-data.ts'
import { aManifest, aRegistry, type Registry } from './seed.ts'
import { type Server, startServer } from './server.ts'
import { figure, ratio, table } from './table.ts'

/** Sends one request. Throws if the response is not the expected one. */
type Act = () => Promise<unknown>

interface Timing {
  medianMs: number
  slowestMs: number
}

/**
 * `npm run bench -- large` measures requests on an empty and on a large database, one request at a time. It also
 * measures requests that read all of the large data. `--packages=`, `--versions=`, `--repositories=` and
 * `--token-pairs=` set the sizes.
 */
export async function measureLarge(folder: string, sizes: Sizes, count: number): Promise<string> {
  const server = await startServer(folder)
  try {
    const small = await aRegistry(server.db, 'private')
    await push(server, small, 'bench/lib', 0)
    const everyday = await everydayRequests(server, small)
    const before = await timeAll(everyday, count)
    const large = await aRegistry(server.db, 'private')
    await push(server, large, largePackage, 0)
    const member = await anAccount(server.db)
    const start = performance.now()
    await fill(server.db, sizes, { repositoryId: large.repository.id, memberId: member.id })
    const seconds = Math.round((performance.now() - start) / 1000)
    const after = await timeAll(everyday, count)
    const seeing = await timeAll(await seeingRequests(server, large, member), Math.max(count / 10, 5))
    const sized = Object.entries(sizes).map(([name, size]) => `${name} ${size.toLocaleString('en')}`)
    return [
      `Filled in ${seconds} s: ${sized.join(', ')}.`,
      table(
        ['request', 'empty: median ms', 'slowest', 'large: median ms', 'slowest', 'ratio'],
        [...after].map(([name, timing]) => {
          const empty = before.get(name) ?? timing
          return [name, ...cells(empty), ...cells(timing), ratio(timing.medianMs / empty.medianMs)]
        }),
      ),
      table(
        ['request that sees all', 'median ms', 'slowest'],
        [...seeing].map(([name, timing]) => [name, ...cells(timing)]),
      ),
    ].join('\n\n')
  } finally {
    await server.stop()
  }
}

async function everydayRequests(server: Server, registry: Registry): Promise<Map<string, Act>> {
  const application = await anApplication(server.db)
  const authorization = await anAuthorization(server.db, await anAccount(server.db), application)
  const askForToken = async (form: Record<string, string>) => {
    const headers = { authorization: application.basic }
    const response = await send(server, '/oauth2/token', {
      method: 'POST',
      headers,
      body: new URLSearchParams(form),
    })
    return (await response.json()) as { access_token: string; refresh_token: string }
  }
  const code = await aCode(server.db, authorization)
  let pair = await askForToken({ grant_type: 'authorization_code', code })
  let pushed = 0
  return new Map<string, Act>([
    [
      'refresh',
      async () => {
        pair = await askForToken({ grant_type: 'refresh_token', refresh_token: pair.refresh_token })
      },
    ],
    ['bearer check', () => get(server, '/api/user', `Bearer ${pair.access_token}`)],
    ['pull of p2', () => get(server, `${registry.path}p2/bench/lib.json`, registry.authorization)],
    ['pull of packages.json', () => get(server, `${registry.path}packages.json`, registry.authorization)],
    ['push of a version', () => push(server, registry, 'bench/pushed', pushed++)],
    [
      'search in a small repository',
      () => get(server, `${registry.path}search.json?q=bench`, registry.authorization),
    ],
  ])
}

async function seeingRequests(
  server: Server,
  large: Registry,
  member: { username: string },
): Promise<Map<string, Act>> {
  const ofMember = await signInOver(server.baseUrl, { username: member.username, password })
  const admin = await anAccount(server.db, { isAdmin: true })
  const ofAdmin = await signInOver(server.baseUrl, { username: admin.username, password })
  const search = (query: string) => () =>
    get(server, `${large.path}search.json?${query}`, large.authorization)
  const open = (url: string, cookie: string) => () => send(server, url, { headers: { cookie } })
  let name = 0
  const pushNew = () => push(server, large, `new/lib${name++}`, 0)
  return new Map<string, Act>([
    ['search: a frequent word in names', search('q=log')],
    ['search: a frequent word in descriptions', search('q=sentence')],
    ['search: a rare word', search('q=99999')],
    ['search: two words', search('q=http+number+77')],
    ['search: no match', search('q=nowhere')],
    ['search: everything', search('q=')],
    ['search: a rare type', search('q=&type=composer-plugin')],
    ['list.json', () => get(server, `${large.path}list.json`, large.authorization)],
    [
      'changes.json from zero',
      () => get(server, `${large.path}metadata/changes.json?since=0`, large.authorization),
    ],
    ['push of a new name', pushNew],
    ['twenty pushes of new names at once, in total', () => Promise.all(Array.from({ length: 20 }, pushNew))],
    [
      'packages.json after a new name',
      async () => {
        await server.db.query(
          `update repository_listing set revision = nextval('document_revision') where repository_id = $1`,
          [large.repository.id],
        )
        return get(server, `${large.path}packages.json`, large.authorization)
      },
    ],
    ['repository page', open(`/${large.repository.path}`, ofAdmin)],
    ['repository page, search for a rare word', open(`/${large.repository.path}?q=99999`, ofAdmin)],
    ...['', ...packageTabs.map((tab) => `/-/${tab}`)].map(
      (tab) =>
        [
          `package of 20,000 versions: ${tab || 'README'}`,
          open(`/${large.repository.path}/packages/${largePackage}${tab}`, ofAdmin),
        ] as const,
    ),
    ['home page of a member of all', open('/', ofMember)],
    ['home page of an administrator', open('/', ofAdmin)],
    ['home page, search', open('/?q=repo77', ofAdmin)],
    ['global search of an administrator: a frequent word', open('/search?q=log', ofAdmin)],
    ['global search of an administrator: a rare word', open('/search?q=99999', ofAdmin)],
    ['global search of a member of all: a frequent word', open('/search?q=log', ofMember)],
    ['global search of a member of all: a rare word', open('/search?q=99999', ofMember)],
    ['token page of a member of all', open('/settings/tokens', ofMember)],
    ['token page of an administrator', open('/settings/tokens', ofAdmin)],
  ])
}

/** The pages of a package. Some URLs lead to the middle of a long list. */
const packageTabs = [
  'versions',
  'dependencies',
  'dependents',
  'files',
  'files?path=composer.json',
  'compare',
  'compare?from=0.5.0&to=0.15000.0',
  'advisories',
  'activity',
]

async function timeAll(acts: Map<string, Act>, count: number): Promise<Map<string, Timing>> {
  const timings = new Map<string, Timing>()
  for (const [name, act] of acts) {
    for (let i = 0; i < count / 5; i += 1) await act()
    const milliseconds: number[] = []
    for (let i = 0; i < count; i += 1) {
      const start = performance.now()
      await act()
      milliseconds.push(performance.now() - start)
    }
    const sorted = milliseconds.toSorted((a, b) => a - b)
    timings.set(name, { medianMs: sorted[sorted.length >> 1] ?? 0, slowestMs: sorted.at(-1) ?? 0 })
  }
  return timings
}

function cells({ medianMs, slowestMs }: Timing): string[] {
  return [figure(medianMs), figure(slowestMs)]
}

async function push(server: Server, { path, authorization }: Registry, name: string, patch: number) {
  const body = new Uint8Array(aPackageZip(name, { ...aManifest(name), extra: { build: `${patch}` } }))
  const url = `${path}upload/${name}/1.0.${patch}`
  await send(server, url, { method: 'PUT', headers: { authorization }, body }, 201)
}

async function get(server: Server, path: string, authorization: string): Promise<void> {
  await (await send(server, path, { headers: { authorization } })).arrayBuffer()
}

async function send(server: Server, path: string, options: RequestInit, status = 200): Promise<Response> {
  const response = await fetch(server.baseUrl + path, options)
  const copy = new Response(await response.arrayBuffer(), { headers: response.headers })
  if (response.status !== status) throw new Error(`${path}: ${response.status} ${await copy.text()}`)
  return copy
}
