import type { LookupAddress } from 'node:dns'
import { readFile } from 'node:fs/promises'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { readConfig } from '../../src/config.ts'
import type { Resolver } from '../../src/outbound/guard.ts'
import { kinds, type OutboundKind, type RequestKind } from '../../src/outbound/kinds.ts'
import { type Outbound, openOutbound } from '../../src/outbound/outbound.ts'
import { toOutboundError } from '../../src/outbound/outbound-error.ts'
import { patientBounds } from '../support/app.ts'

// The table: addresses, names that change, and redirects, for every kind. Two kinds differ.
// `git`: its program sends the requests to the IP that it gets here. That it uses https, and follows no redirect, is in
// test/sources/hostile-sources.test.ts.
// `provider`: the operator has named its URLs in the environment, so its hosts may be private. It uses http only on this machine.
const everyKind = Object.keys(kinds) as OutboundKind[]
const requestKinds = everyKind.filter((kind): kind is RequestKind => kind !== 'git')
const following = requestKinds.filter((kind) => kinds[kind].redirects > 0)
const notFollowing = requestKinds.filter((kind) => kinds[kind].redirects === 0)
const operatorsKinds = requestKinds.filter((kind) => kind !== 'provider')
// `clientDocument`: everybody names its URLs, so a range of OUTBOUND_PRIVATE_HOSTS allows nothing (OPENID 278).
const isNamedByAnybody = (kind: OutboundKind) => 'isNamedByAnybody' in kinds[kind]
const mayBePrivate = (kind: OutboundKind) => kind === 'provider'

const operators = { reachesPrivateHosts: true }
const anybodys = { reachesPrivateHosts: false }

/** What the servers have received, with the IP on which it arrived. */
const seen: string[] = []
/** Responds to the paths that a test has set. Other paths get `{}`. */
const handlers = new Map<string, RequestListener>()
let port = 0
const servers: Server[] = []

function respond(request: IncomingMessage, response: ServerResponse): void {
  seen.push(`${request.socket.localAddress} ${request.headers.host} ${request.url}`)
  const [, to] = /^\/to\/(.*)$/.exec(request.url ?? '') ?? []
  if (to !== undefined) return void response.writeHead(302, { location: decodeURIComponent(to) }).end()
  const handler = handlers.get(request.url ?? '')
  if (handler) handler(request, response)
  else response.writeHead(200, { 'content-type': 'application/json' }).end('{"a":1}')
}

beforeAll(async () => {
  // The same port on several loopback IPs, so that a name can move from one to another.
  for (const host of ['127.0.0.1', '127.0.0.2']) {
    const server = createServer(respond)
    await new Promise<void>((resolve) => server.listen(port, host, resolve))
    port = (server.address() as AddressInfo).port
    servers.push(server)
  }
})
afterEach(() => {
  seen.splice(0)
  handlers.clear()
})
afterAll(async () => {
  for (const server of servers) {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
})

/** Opens a client, and closes it after the work. Its requests have more time than a busy machine takes. */
async function withOutbound<T>(
  environment: Record<string, string>,
  work: (outbound: Outbound) => Promise<T>,
  resolver?: Resolver,
): Promise<T> {
  const outbound = openOutbound(readConfig(environment), resolver, patientBounds)
  try {
    return await work(outbound)
  } finally {
    await outbound.close()
  }
}

const ask = (outbound: Outbound, kind: RequestKind, url: string, rights = operators): Promise<unknown> =>
  outbound.getJson(kind, url, { rights })

/** Whether a kind only asks the guard for an IP in `reach`: `git` always does, and `provider` can send no http there. */
const asksForIp = (kind: OutboundKind): kind is 'git' | 'provider' => kind === 'git' || kind === 'provider'

/** Reaches the host of a URL: by a request, or by the IP that the guard returns. */
function reach(outbound: Outbound, kind: OutboundKind, url: string, rights = operators): Promise<unknown> {
  if (!asksForIp(kind)) return ask(outbound, kind, url, rights)
  const { hostname, port: given } = new URL(url)
  return outbound.approveHost(kind, hostname, Number(given || 80), rights)
}

/** Expects that a kind does not reach a private host, or that it does if the operator has named it. */
async function expectGuarded(
  kind: OutboundKind,
  reached: Promise<unknown>,
  ip: string | RegExp,
): Promise<void> {
  if (mayBePrivate(kind)) {
    expect(await reached).toMatch(ip)
    return
  }
  await expect(reached).rejects.toThrow(
    / has no public IP: check the name. For a private host, an operator must allow it with OUTBOUND_PRIVATE_HOSTS, and /,
  )
  await expect(reached).rejects.toMatchObject({ failure: 'private', isUnreachable: true })
}

/** A resolver that returns the given IPs for a name, one list for each question, and the last one from then on. */
function resolvingTo(...answers: string[][]): { resolver: Resolver; asked: string[] } {
  const asked: string[] = []
  const resolver: Resolver = (hostname, _options, callback) => {
    const ips = answers[Math.min(asked.push(hostname), answers.length) - 1] ?? []
    const addresses = ips.map(
      (address): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 }),
    )
    if (addresses.length > 0) return callback(null, addresses)
    callback(Object.assign(new Error('not found'), { code: 'ENOTFOUND' }), [])
  }
  return { resolver, asked }
}

const http = { OUTBOUND_HTTP: 'true' }
const here = { ...http, OUTBOUND_PRIVATE_HOSTS: '127.0.0.1' }

describe.each(everyKind)('a request of the kind %s', (kind) => {
  it.each([
    ...[
      '127.0.0.1',
      '127.0.0.1.',
      '2130706433',
      '0x7f000001',
      '0x7f.1',
      '0177.0.0.1',
      '017700000001',
      '127.1',
      '0',
    ],
    ...[
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[::127.0.0.1]',
      '[64:ff9b::7f00:1]',
      '[2002:7f00:1::]',
    ],
    ...[
      '[2001:0:7f00:1::]',
      '10.0.0.1',
      '169.254.169.254',
      '[fd00:ec2::254]',
      '[fe80::1]',
      '%31%32%37.0.0.1',
      '①②⑦.0.0.1',
    ],
    ...['localhost', 'LOCALHOST'],
    // Not every machine has this name.
    ...(mayBePrivate(kind) ? [] : ['localhost.']),
  ])(`${mayBePrivate(kind) ? 'may connect' : 'does not connect'} to %s`, async (host) => {
    const reached = withOutbound(http, (outbound) => reach(outbound, kind, `http://${host}:${port}/`))
    await expectGuarded(kind, reached, /^[\d.]+$|:/)
    expect(seen).toEqual([])
  })

  it('fails for a name that does not exist as for a private one, unless it may be private', async () => {
    const { resolver } = resolvingTo([])
    const url = `http://nothing.example:${port}/`
    const reached = withOutbound(http, (outbound) => reach(outbound, kind, url), resolver)
    await expect(reached).rejects.toMatchObject({ failure: mayBePrivate(kind) ? 'unreachable' : 'private' })
  })

  it.each([
    [['127.0.0.1']],
    [['8.8.8.8', '127.0.0.1']],
    [['127.0.0.1', '8.8.8.8']],
    [['2606:4700::1111', '::ffff:7f00:1']],
    [['8.8.8.8', '64:ff9b::a9fe:a9fe']],
  ])(
    `${mayBePrivate(kind) ? 'may connect' : 'does not connect'} to a name that has the IPs %j`,
    async (ips) => {
      const { resolver, asked } = resolvingTo(ips)
      const url = `http://a.example:${port}/`
      const reached = withOutbound(http, (outbound) => reach(outbound, kind, url), resolver)
      await expectGuarded(kind, reached, ips[0] ?? '')
      expect([asked, seen]).toEqual([['a.example'], []])
    },
  )

  it.each([
    '127.0.0.1',
    '127.0.0.1:PORT',
    ...(isNamedByAnybody(kind) ? [] : ['127.0.0.0/8', '127.0.0.0/31:PORT']),
    'a.example',
    'A.example.:PORT',
    'b.example, fd00::/8, a.example',
  ])('connects to a private host of OUTBOUND_PRIVATE_HOSTS=%s', async (listed) => {
    const environment = { ...http, OUTBOUND_PRIVATE_HOSTS: listed.replace('PORT', `${port}`) }
    const { resolver } = resolvingTo(['127.0.0.1'])
    const url = `http://a.example:${port}/`
    const said = await withOutbound(environment, (outbound) => reach(outbound, kind, url), resolver)
    expect([said, seen]).toEqual(
      asksForIp(kind) ? ['127.0.0.1', []] : [{ a: 1 }, [`127.0.0.1 a.example:${port} /`]],
    )
  })

  it.each([
    '127.0.0.2',
    '127.0.0.2/31',
    '127.0.0.1:1',
    '127.0.0.0/8:1',
    'a.example:1',
    'example',
    '::1',
    '::/0',
    ...(isNamedByAnybody(kind) ? ['127.0.0.0/8', '127.0.0.0/31', '127.0.0.1/31'] : []),
  ])(
    `${mayBePrivate(kind) ? 'may connect' : 'does not connect'} to another host than OUTBOUND_PRIVATE_HOSTS=%s`,
    async (listed) => {
      const environment = { ...http, OUTBOUND_PRIVATE_HOSTS: listed }
      // 127.0.0.2/31 is the range of 127.0.0.2 and 127.0.0.3.
      const { resolver } = resolvingTo(['127.0.0.1'])
      const url = `http://a.example:${port}/`
      const reached = withOutbound(environment, (outbound) => reach(outbound, kind, url), resolver)
      await expectGuarded(kind, reached, '127.0.0.1')
      expect(seen).toEqual([])
    },
  )

  it('reaches private hosts only with the rights of the operator, also when a connection is open', async () => {
    await withOutbound(here, async (outbound) => {
      const url = `http://127.0.0.1:${port}/`
      await reach(outbound, kind, url)
      const before = seen.length
      await expectGuarded(kind, reach(outbound, kind, url, anybodys), '127.0.0.1')
      expect(seen.length).toBe(before)
    })
  })

  it('cannot be sent to another IP by a name that changes', async () => {
    const { resolver, asked } = resolvingTo(['127.0.0.1'], ['127.0.0.2'])
    const url = `http://a.example:${port}/`
    await withOutbound(
      here,
      async (outbound) => {
        await reach(outbound, kind, url)
        // The connection stays open, so a request needs no second answer.
        const again = asksForIp(kind) ? url : url.replace('a.', 'b.')
        await expectGuarded(kind, reach(outbound, kind, again), '127.0.0.2')
      },
      resolver,
    )
    expect(asked).toHaveLength(2)
    expect(seen).toEqual(asksForIp(kind) ? [] : [`127.0.0.1 a.example:${port} /`])
  })
})

describe.each(operatorsKinds)('a request of the kind %s', (kind) => {
  it('uses http only with OUTBOUND_HTTP and the rights of the operator', async () => {
    const url = `http://127.0.0.1:${port}/`
    const listed = { OUTBOUND_PRIVATE_HOSTS: '127.0.0.1' }
    await expect(withOutbound(listed, (outbound) => ask(outbound, kind, url))).rejects.toThrow(
      `http://127.0.0.1:${port} is not https: an operator must allow it with OUTBOUND_HTTP=true, and `,
    )
    const { resolver } = resolvingTo(['8.8.8.8'])
    const ofAnybody = withOutbound(http, (o) => ask(o, kind, 'http://a.example/', anybodys), resolver)
    await expect(ofAnybody).rejects.toThrow('http://a.example is not https')
    expect(seen).toEqual([])
    await withOutbound(here, (outbound) => ask(outbound, kind, url))
    expect(seen).toHaveLength(1)
  })
})

describe.each(requestKinds)('a request of the kind %s', (kind) => {
  it.each([
    'file:///etc/passwd',
    'ftp://a.example/',
    'data:application/json,{}',
    'a.example',
    '//a.example/',
    '',
  ])('does not read %j', async (url) => {
    const failure = withOutbound(here, (outbound) => ask(outbound, kind, url))
    await expect(failure).rejects.toThrow('is not http or https')
  })

  it('names the host in TLS, and connects to its IP', async () => {
    const names: string[] = []
    const server = createTlsServer({
      SNICallback(name, callback) {
        names.push(name)
        callback(new Error('no certificate'))
      },
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `https://a.example:${(server.address() as AddressInfo).port}/`
    const { resolver } = resolvingTo(['127.0.0.1'])
    await expect(withOutbound(here, (outbound) => ask(outbound, kind, url), resolver)).rejects.toMatchObject({
      failure: 'unreachable',
    })
    await new Promise((resolve) => server.close(resolve))
    expect(names).toEqual(['a.example'])
  })

  it('uses no proxy of the environment, and no credentials of the URL', async () => {
    const proxies = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY']
    const before = proxies.map((name) => [name, process.env[name]] as const)
    for (const name of proxies) process.env[name] = 'http://127.0.0.1:1'
    let authorization: string | undefined = 'none yet'
    handlers.set('/', (request, response) => {
      authorization = request.headers.authorization
      response.end('{}')
    })
    try {
      await withOutbound(here, (outbound) => ask(outbound, kind, `http://ann:secret@127.0.0.1:${port}/`))
    } finally {
      for (const [name, value] of before) {
        if (value === undefined) delete process.env[name]
        else process.env[name] = value
      }
    }
    expect([authorization, seen.length]).toEqual([undefined, 1])
  })

  it('ends a body that is too large, also when it is compressed', async () => {
    const maxBytes = Math.min(kinds[kind].maxBytes, 10_000)
    handlers.set('/large', (_request, response) => void response.end(Buffer.alloc(maxBytes + 1, 32)))
    handlers.set('/bomb', (_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(maxBytes + 1, 32)))
    })
    handlers.set('/fits', (_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(`{}${' '.repeat(maxBytes - 2)}`))
    })
    await withOutbound(here, async (outbound) => {
      const get = (path: string) =>
        outbound.getJson(kind, `http://127.0.0.1:${port}${path}`, { rights: operators, maxBytes })
      await expect(get('/large')).rejects.toMatchObject({ failure: 'too-large' })
      await expect(get('/bomb')).rejects.toMatchObject({ failure: 'too-large' })
      await expect(get('/fits')).resolves.toEqual({})
    })
  })

  it('ends the wait for a name that is not resolved in time', async () => {
    const silent: Resolver = () => {}
    await withOutbound(
      http,
      async (outbound) => {
        const options = { rights: anybodys, milliseconds: 100 }
        const failure = outbound.getJson(kind, 'http://localhost/', options)
        await expect(failure).rejects.toThrow('did not respond in time')
      },
      silent,
    )
  })

  it('ends a response that does not come, or does not end, in time', async () => {
    handlers.set('/silent', () => {})
    handlers.set('/endless', (_request, response) => void response.write('{'))
    await withOutbound(here, async (outbound) => {
      for (const path of ['/silent', '/endless']) {
        const options = { rights: operators, milliseconds: 100 }
        const failure = outbound.getJson(kind, `http://127.0.0.1:${port}${path}`, options)
        await expect(failure).rejects.toThrow(`127.0.0.1:${port} did not respond in time`)
      }
    })
  })

  it('does not show the response in an error', async () => {
    handlers.set('/', (_request, response) => void response.writeHead(500, 'Secret').end('secret'))
    handlers.set('/text', (_request, response) => void response.end('secret'))
    await withOutbound(here, async (outbound) => {
      const said = (path: string) =>
        ask(outbound, kind, `http://127.0.0.1:${port}${path}`).then(String, (error: Error) => error.message)
      expect(await said('/')).toBe(`127.0.0.1:${port} did not respond as expected`)
      expect(await said('/text')).toBe(`127.0.0.1:${port} did not send JSON`)
    })
  })

  it('tells whether the response comes from a private host', async () => {
    await withOutbound(here, async (outbound) => {
      const response = await outbound.fetchBytes(kind, `http://127.0.0.1:${port}/`, { rights: operators })
      expect(response).toMatchObject({ status: 200, isPrivate: true, bytes: Buffer.from('{"a":1}') })
    })
  })
})

describe.each(notFollowing)('a request of the kind %s', (kind) => {
  it('does not follow redirects', async () => {
    await withOutbound(here, async (outbound) => {
      const url = `http://127.0.0.1:${port}/to/%2Fend`
      await expect(ask(outbound, kind, url)).rejects.toMatchObject({ failure: 'status' })
    })
    expect(seen).toHaveLength(1)
  })
})

describe.each(following)('a request of the kind %s', (kind) => {
  const to = (target: string) => `/to/${encodeURIComponent(target)}`
  const nest = (times: number): string => (times === 0 ? '/end' : to(nest(times - 1)))
  const get = (path: string, environment: Record<string, string> = here) =>
    withOutbound(environment, (outbound) => ask(outbound, kind, `http://127.0.0.1:${port}${path}`))

  it('follows five redirects and not six', async () => {
    await expect(get(nest(5))).resolves.toEqual({ a: 1 })
    await expect(get(nest(6))).rejects.toThrow('redirects more than 5 times')
    handlers.set('/loop', (_request, response) => void response.writeHead(302, { location: '/loop' }).end())
    await expect(get('/loop')).rejects.toThrow('redirects more than 5 times')
  })

  it('sends the headers for a host to no other one, and no credentials of a URL', async () => {
    const headers: unknown[] = []
    handlers.set('/end', (request, response) => {
      headers.push([request.headers['x-for'], request.headers.authorization])
      response.end('{}')
    })
    await withOutbound({ ...http, OUTBOUND_PRIVATE_HOSTS: '127.0.0.1,127.0.0.2' }, (outbound) =>
      outbound.getJson(kind, `http://127.0.0.1:${port}${to(`http://eve:secret@127.0.0.2:${port}/end`)}`, {
        rights: operators,
        headersFor: ({ hostname }) => ({ 'x-for': hostname }),
      }),
    )
    expect(headers).toEqual([['127.0.0.2', undefined]])
  })

  it.each([
    ['a private host', 'http://127.0.0.2:PORT/secret', 'private'],
    ['a private host by another form of its IP', 'http://[::ffff:127.0.0.2]:PORT/secret', 'private'],
    ['a private name', 'http://nothing.invalid/', 'private'],
    ...[
      'file:///etc/passwd',
      'ftp://127.0.0.1/',
      'data:application/json,{}',
      'gopher://127.0.0.1/',
      'javascript:1',
    ].map((url): [string, string, string] => [`another scheme, ${url}`, url, 'invalid-url']),
    ['no URL', 'http://', 'invalid-url'],
  ])(
    'checks each redirect, and does not show to whom a private host redirects: %s',
    async (_name, target, failure) => {
      const error = await get(to(target.replace('PORT', `${port}`))).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({
        failure,
        message: `127.0.0.1:${port} redirects to a URL that is not allowed`,
      })
      expect(seen).toHaveLength(1)
    },
  )

  it('does not follow a redirect from https to http, and does with OUTBOUND_HTTP', async () => {
    const pem = await readFile(new URL('../fixtures/loopback-tls.pem', import.meta.url))
    const server = createSecureServer({ key: pem, cert: pem }, respond)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const target = `http://127.0.0.1:${port}/end`
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}${to(target)}`
    // The certificate is of no authority. That is another rule.
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    try {
      const listed = { OUTBOUND_PRIVATE_HOSTS: '127.0.0.1' }
      await expect(withOutbound(listed, (outbound) => ask(outbound, kind, url))).rejects.toMatchObject({
        failure: 'insecure',
        message: `${new URL(url).host} redirects to a URL that is not allowed`,
      })
      expect(seen).toHaveLength(1)
      await expect(withOutbound(here, (outbound) => ask(outbound, kind, url))).resolves.toEqual({ a: 1 })
    } finally {
      vi.unstubAllEnvs()
      await new Promise((resolve) => server.close(resolve))
    }
  })
})

describe('requests of one kind', () => {
  it('do not use the connections of another kind, nor its places', async () => {
    const silent: ServerResponse[] = []
    handlers.set('/silent', (_request, response) => void silent.push(response))
    await withOutbound(here, async (outbound) => {
      const url = `http://127.0.0.1:${port}`
      const hanging = Array.from({ length: kinds.issuer.requests + 1 }, () =>
        ask(outbound, 'issuer', `${url}/silent`),
      )
      for (const kind of requestKinds.filter((one) => one !== 'issuer'))
        await expect(ask(outbound, kind, url)).resolves.toEqual({ a: 1 })
      expect(silent.length).toBeLessThanOrEqual(kinds.issuer.connections)
      handlers.clear()
      for (const response of silent) response.end('{}')
      await Promise.all(hanging)
    })
  })

  it('wait for a place at most until their time is over', async () => {
    const silent: ServerResponse[] = []
    handlers.set('/silent', (_request, response) => void silent.push(response))
    await withOutbound(here, async (outbound) => {
      const url = `http://127.0.0.1:${port}`
      const hang = () => ask(outbound, 'import', `${url}/silent`)
      const hanging = Promise.all(Array.from({ length: kinds.import.requests }, hang))
      const failure = outbound.getJson('import', url, { rights: operators, milliseconds: 100 })
      await expect(failure).rejects.toMatchObject({ failure: 'timeout' })
      await expect.poll(() => silent.length).toBe(kinds.import.requests)
      for (const response of silent) response.end('{}')
      await hanging
      await expect(ask(outbound, 'import', url)).resolves.toEqual({ a: 1 })
    })
  })
})

describe('a sign-in provider', () => {
  it('may be on every host, because the operator has named it in the environment', async () => {
    const { resolver } = resolvingTo(['127.0.0.1'])
    await withOutbound({}, (outbound) => ask(outbound, 'provider', `http://localhost:${port}/`), resolver)
    expect(seen).toEqual([`127.0.0.1 localhost:${port} /`])
    expect(await withOutbound({}, (o) => o.approveHost('provider', '10.0.0.1', 443, operators))).toBe(
      '10.0.0.1',
    )
  })

  it('uses http on this machine only', async () => {
    const { resolver } = resolvingTo(['127.0.0.1'])
    const failure = withOutbound(here, (o) => ask(o, 'provider', `http://id.example:${port}/`), resolver)
    await expect(failure).rejects.toThrow(`http://id.example:${port} is not https`)
    expect(seen).toEqual([])
  })
})

describe('close', () => {
  it('ends requests that run, and refuses new ones', async () => {
    handlers.set('/silent', () => {})
    const outbound = openOutbound(readConfig(here))
    const url = `http://127.0.0.1:${port}/silent`
    const running = outbound.getJson('upstream', url, { rights: operators })
    const closed = expect(running).rejects.toMatchObject({ failure: 'closed' })
    await outbound.close()
    await closed
    await expect(outbound.getJson('upstream', url, { rights: operators })).rejects.toMatchObject({
      failure: 'closed',
    })
  })
})

describe('a certificate that does not fit', () => {
  it.each([
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'a.example cannot be reached: its certificate is for another name'],
    ['CERT_HAS_EXPIRED', 'a.example cannot be reached: its certificate has expired'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'a.example cannot be reached: its certificate is not trusted here'],
  ])('is named in words: %s', (code, words) => {
    const error = toOutboundError(Object.assign(new Error('tls'), { code }), 'https://a.example/')
    expect([error.failure, error.message]).toEqual(['unreachable', `${words} (${code})`])
  })
})
