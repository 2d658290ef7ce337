import { AsyncLocalStorage } from 'node:async_hooks'
import { Agent, request as httpRequest } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { FastifyInstance } from 'fastify'
import pg from 'pg'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { csrfTokenOf } from '../../../src/accounts/sessions.ts'
import { makeOpaqueId, makeSecret } from '../../../src/domain/secrets.ts'
import { buildApp } from '../../../src/web/server/app.ts'
import { openLog } from '../../../src/web/server/log.ts'
import { post } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { basicOf } from '../../support/oauth-actors.ts'
import { freePort } from '../../support/program.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { postForm } from '../../support/token-client.ts'

describe('a URL that cannot be decoded', () => {
  const t = useApp()

  it.each([
    ['/oauth2/%zz', 'application/json;charset=UTF-8', { error: 'invalid_request' }],
    ['/api/%zz', 'application/json; charset=utf-8', { errcode: 3 }],
    ['/acme/php/-/packages/p2/%zz.json', 'application/json', { errcode: 3 }],
  ])('gets an error in the format of its scope: %s', async (url, type, body) => {
    const response = await t.app.inject(url)
    expect(response.statusCode).toBe(400)
    expect(response.headers['content-type']).toBe(type)
    expect(response.json()).toMatchObject(body)
  })

  it('gets a page everywhere else', async () => {
    const response = await t.app.inject('/acme/%zz')
    expect(response.statusCode).toBe(400)
    expect(response.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(response.headers['content-security-policy']).toBeDefined()
  })
})

describe('an unknown method', () => {
  const t = useApp()

  it.each([
    ['/oauth2/token', 'application/json;charset=UTF-8', { error: 'invalid_request' }],
    ['/api/user', 'application/json; charset=utf-8', { errcode: 5 }],
    ['/acme/php/-/packages/packages.json', 'application/json', { errcode: 5 }],
  ])('gets an error in the format of its scope: %s', async (url, type, body) => {
    const response = await t.app.inject({ method: 'PROPFIND', url })
    expect(response.statusCode).toBe(404)
    expect(response.headers['content-type']).toBe(type)
    expect(response.json()).toMatchObject(body)
  })

  it('gets a page everywhere else', async () => {
    const response = await t.app.inject({ method: 'PROPFIND', url: '/acme/php' })
    expect(response.statusCode).toBe(404)
    expect(response.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(response.headers['content-security-policy']).toBeDefined()
  })
})

describe('a database that cannot be reached', () => {
  const t = useApp()

  it('responds with 503, in each error format', async () => {
    const db = new pg.Pool({ host: '127.0.0.1', port: await freePort() })
    const app = await buildApp({ db, config: t.config }, openLog('silent'))
    onTestFinished(async () => {
      await app.close()
      await db.end()
    })
    const token = await postForm({ app }, '/oauth2/token', 'grant_type=refresh_token&refresh_token=x', {
      authorization: basicOf('someclient', 'secret'),
    })
    expect([token.statusCode, token.headers['retry-after']]).toEqual([503, '5'])
    expect(token.json().error).toBe('temporarily_unavailable')
    const user = await app.inject({
      url: '/api/user',
      headers: { authorization: `Bearer ${makeSecret('access')}` },
    })
    expect([user.statusCode, user.headers['retry-after']]).toEqual([503, '5'])
    expect(user.json().errcode).toBe(14)
    const pull = await app.inject('/acme/php/-/packages/packages.json')
    expect([pull.statusCode, pull.headers['retry-after']]).toEqual([503, '5'])
    expect(pull.json().errcode).toBe(14)
    const push = await app.inject({
      method: 'PUT',
      url: '/acme/php/-/packages/upload/acme/lib/1.0.0',
      headers: { authorization: `Bearer ${makeSecret('access')}` },
      payload: Buffer.alloc(1000),
    })
    expect([push.statusCode, push.headers['retry-after']]).toEqual([503, '5'])
    expect(push.json().errcode).toBe(14)
    const cookie = makeOpaqueId()
    const headers = { cookie: `svc_session=${cookie}` }
    const pages = [
      app.inject({ url: '/', headers }),
      app.inject({ url: '/settings/tokens', headers }),
      app.inject({ url: '/acme/php', headers }),
      app.inject('/oauth2/auth?client_id=x'),
      post(app, '/login', headers.cookie, { csrf_token: csrfTokenOf(cookie), username: 'a', password: 'b' }),
    ]
    for (const page of await Promise.all(pages)) {
      expect([page.statusCode, page.headers['retry-after']]).toEqual([503, '5'])
      expect(page.headers['content-type']).toBe('text/html; charset=utf-8')
      expect(page.body).toContain('try again')
      // Nobody knows whether the person is signed in.
      expect(page.body).not.toContain('>Sign in<')
    }
  })
})

describe('a request that names the host in its first line', () => {
  const t = useApp()

  it.each([
    ['http://svc.test/api/openapi.json', 200, 'application/json; charset=utf-8'],
    ['http://svc.test/api/user', 401, 'application/json; charset=utf-8'],
    ['HTTP://svc.test:80/api/nothing', 404, 'application/json; charset=utf-8'],
    ['http://svc.test/api/%zz', 400, 'application/json; charset=utf-8'],
    ['http://svc.test/login?return=x', 200, 'text/html; charset=utf-8'],
    ['http://svc.test?q', 200, 'text/html; charset=utf-8'],
  ])('is that for its path: %s', async (target, status, type) => {
    const [response, direct] = await Promise.all([
      exchangeBytes(t.app, target),
      t.app.inject(target.replace(/^http:\/\/[^/?]*\/?/i, '/')),
    ])
    expect(response).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(response.toLowerCase()).toContain(`content-type: ${type}`)
    expect(direct.statusCode).toBe(status)
  })
})

describe('a HEAD request', () => {
  const t = useApp()

  it('gets the headers of a GET, also of a redirect, and its connection is used again', async () => {
    await t.app.listen({ host: '127.0.0.1', port: 0 })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    onTestFinished(() => agent.destroy())
    const { port } = t.app.server.address() as AddressInfo
    const ask = (method: 'GET' | 'HEAD', path: string) =>
      new Promise<{ status: unknown; length: unknown; port: unknown }>((resolve, reject) => {
        const request = httpRequest({ agent, host: '127.0.0.1', port, method, path }, (response) => {
          const { statusCode: status, headers, socket } = response
          const asked = { status, length: headers['content-length'], port: socket.localPort }
          response.resume().on('end', () => resolve(asked))
        })
        request.on('error', reject).end()
      })
    const ports = new Set()
    for (const path of [
      '/settings/account',
      '/acme/php/-/packages/',
      '/healthz',
      '/login',
      '/nothing/here',
    ]) {
      const [head, get] = [await ask('HEAD', path), await ask('GET', path)]
      expect({ path, ...head }).toEqual({ path, ...get })
      expect(get.length).toMatch(/^\d+$/)
      ports.add(head.port)
    }
    expect(ports.size).toBe(1)
  })
})

describe('Strict-Transport-Security', () => {
  const secure = useApp({ BASE_URL: 'https://svc.test' })
  const plain = useApp({ BASE_URL: 'http://svc.test' })

  it.each(['/login', '/api/user', '/oauth2/token', '/acme/php/-/packages/packages.json', '/nothing'])(
    'is sent with %s under https only',
    async (url) => {
      const [over, without] = [await secure.app.inject(url), await plain.app.inject(url)]
      expect(over.headers['strict-transport-security']).toBe('max-age=31536000')
      expect(without.headers['strict-transport-security']).toBeUndefined()
    },
  )
})

describe('a hidden repository and a missing one', () => {
  const t = useApp()

  it.each([
    'packages.json',
    'filter.json',
    'p2/acme/lib.json',
    'search.json?q=lib',
    'list.json',
    'providers/acme/lib.json',
    'metadata/changes.json?since=1',
    `dist/acme/lib/1.0.0/${'a'.repeat(64)}.zip`,
  ])('get the same response to %s from the same statements', async (below) => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const stranger = await aPublisher(t)
    const { authorization } = stranger
    // The last uses of tokens are written a few seconds after the uploads. That is no statement of the request.
    const request = new AsyncLocalStorage<string[]>()
    const query = Reflect.get(pg.Pool.prototype, 'query') as (...given: unknown[]) => unknown
    const noted = function (this: pg.Pool, ...given: unknown[]) {
      request.getStore()?.push((given[0] as { text: string }).text)
      return query.apply(this, given)
    }
    const spy = vi.spyOn(pg.Pool.prototype, 'query').mockImplementation(noted as never)
    onTestFinished(() => spy.mockRestore())
    const statements = async (url: string) => {
      const texts: string[] = []
      const response = await request.run(
        texts,
        async () => await t.app.inject({ url, headers: { authorization } }),
      )
      return { response, texts }
    }
    const { response: hidden, texts } = await statements(publisher.path + below)
    const { response: missing, texts: textsOfMissing } = await statements(`/no/such/-/packages/${below}`)
    expect([hidden.statusCode, hidden.body]).toEqual([404, missing.body])
    expect(missing.statusCode).toBe(404)
    expect(texts).toEqual(textsOfMissing)
    expect(texts).toHaveLength(1)
    // A search may start only after the repository is known to be visible.
    expect(texts[0]).not.toMatch(/strpos|like all|provides|json_agg/)
  })
})

/** Sends a GET with this request target over a real connection and returns the response's bytes as text. */
async function exchangeBytes(app: FastifyInstance, target: string): Promise<string> {
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  socket.write(`GET ${target} HTTP/1.1\r\nhost: svc.test\r\nconnection: close\r\n\r\n`)
  return text(socket)
}

describe('a server that has closed', () => {
  const t = useApp()

  /** Returns what all its parts know. */
  async function aClosedServer(): Promise<WeakRef<object>[]> {
    const config = { ...t.config }
    const app = await buildApp({ config, db: t.db }, openLog('silent'))
    expect((await app.inject('/metrics')).statusCode).toBe(200)
    await app.close()
    return [new WeakRef(app), new WeakRef(config)]
  }

  it('leaves nothing of itself in memory', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const closed = await aClosedServer()
    const isGone = () => {
      collect()
      return closed.map((part) => part.deref() === undefined)
    }
    await expect.poll(isGone).toEqual([true, true])
  })
})
