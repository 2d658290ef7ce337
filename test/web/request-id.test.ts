import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { anAccount, cookiesOf, csrfTokenIn, post } from '../support/actors.ts'
import { eventsOf } from '../support/event-rows.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { aPublisher } from '../support/registry-actors.ts'

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

describe('the id of a request', async () => {
  const port = await freePort()
  const t = useListeningApp(port)
  const idOf = async (url: string, id?: string) =>
    (await t.app.inject({ url, headers: id === undefined ? {} : { 'x-request-id': id } })).headers[
      'x-request-id'
    ]
  /** The lines of the log about a request. */
  const linesOf = (id: string) =>
    t
      .log()
      .split('\n')
      .filter((line) => line.includes(`"reqId":"${id}"`))
      .map((line) => JSON.parse(line) as Record<string, unknown>)

  it.each(['/login', '/api/user', '/oauth2/token', '/no/such/page', '/%zz', '/readyz'])(
    'is taken from X-Request-Id and returned by %s, and is in the log',
    async (url) => {
      const id = `proxy-${encodeURIComponent(url).replaceAll('%', '.')}`
      expect(await idOf(url, id)).toBe(id)
      // These write no line when they succeed, and when the URL cannot be read.
      if (!['/readyz', '/%zz'].includes(url)) await expect.poll(() => linesOf(id)).toHaveLength(1)
      expect(await idOf(url)).toMatch(uuid)
    },
  )

  it('is returned by every endpoint of a registry', async () => {
    const { ask, push } = await aPublisher(t)
    const headers = { 'x-request-id': 'ci/build:42' }
    const pushed = await push('1.0.0', { headers })
    const pulled = await ask('p2/acme/lib.json', { headers })
    const refused = await ask('p2/acme/none.json', { headers: { ...headers, authorization: undefined } })
    for (const response of [pushed, pulled, refused])
      expect(response.headers['x-request-id']).toBe('ci/build:42')
  })

  it('is a new UUID instead of one that is too long or has unsafe characters', async () => {
    const unsafe = ['', 'x'.repeat(101), 'a b', 'a"b', 'a\\b', '<b>', 'a;b', 'ä', 'a,b', 'a%0Ab']
    for (const id of unsafe) expect(await idOf('/healthz', id)).toMatch(uuid)
    expect(await idOf('/healthz', 'x'.repeat(100))).toBe('x'.repeat(100))
    const socket = connect(port, '127.0.0.1')
    socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\nX-Request-Id: one\r\nX-Request-Id: two\r\n\r\n')
    const [response] = (await once(socket, 'data')) as [Buffer]
    socket.destroy()
    expect(/^x-request-id: (.*)\r$/im.exec(response.toString())?.[1]).toMatch(uuid)
  })

  it('is stored with identity events', async () => {
    const { id: accountId, username } = await anAccount(t.db)
    const form = await t.app.inject('/login')
    const sent = { csrf_token: csrfTokenIn(form), username, password: 'wrong' }
    const refused = await post(t.app, '/login', cookiesOf(form), sent)
    const events = await eventsOf(t.db, { action: 'sign-in-failed', accountId }, ['requestId'])
    expect(events).toEqual([{ requestId: refused.headers['x-request-id'] }])
  })

  it('has the valid traceparent of the request beside it in every line of the log', async () => {
    const send = (id: string, traceparent: string) =>
      t.app.inject({ url: '/api/user', headers: { 'x-request-id': id, traceparent } })
    await send('traced', trace)
    await expect.poll(() => linesOf('traced')).toMatchObject([{ traceparent: trace, res: { status: 401 } }])
    const invalid = [
      'x',
      trace.toUpperCase(),
      trace.replace('0af7651916cd43dd8448eb211c80319c', '0'.repeat(32)),
      trace.replace('b7ad6b7169203331', '0'.repeat(16)),
      `${trace}-more`,
    ]
    for (const [i, traceparent] of invalid.entries()) {
      await send(`untraced-${i}`, traceparent)
      await expect.poll(() => linesOf(`untraced-${i}`)).toHaveLength(1)
      expect(linesOf(`untraced-${i}`)[0]).not.toHaveProperty('traceparent')
    }
  })
})
