import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { signIn } from '../support/actors.ts'
import { useListeningApp } from '../support/listening.ts'
import { lockTables, openTransaction, waitingFor } from '../support/locks.ts'
import { freePort } from '../support/program.ts'
import { aPublisher, basic } from '../support/registry-actors.ts'
import { craftZip } from '../support/zip.ts'

const port = await freePort()
const t = useListeningApp(port)

const atOnceOfNetwork = 4
const waitingOfNetwork = 200
const [one, other] = ['192.0.2.1', '192.0.2.2']

/** A request waits for its turn for 10 seconds. A busy machine may need them, so that time does not pass in the test. */
function holdClock(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
}

/** Locks the table of a page, so that all its requests wait for the database until `release`. */
async function holdPages() {
  holdClock()
  const { tx, rollback } = await openTransaction(t.db)
  await lockTables(tx, 'password_reset')
  const open = (count: number, remoteAddress: string) =>
    Array.from({ length: count }, () => t.app.inject({ url: '/password-reset?token=x', remoteAddress }))
  const countRunning = async () => (await waitingFor(t.db, 'password_reset')).length
  /** Waits until the pages of a network have taken all of its turns. */
  const taken = () => vi.waitUntil(async () => (await countRunning()) === atOnceOfNetwork, 60_000)
  let isHeld = true
  async function release() {
    if (!isHeld) return
    isHeld = false
    await rollback()
  }
  onTestFinished(release)
  return { open, countRunning, taken, release }
}

describe('pages, the API and the responses of policies', () => {
  it('are handled a few at a time for each network, while others, pulls, tokens and probes go ahead', async () => {
    const scopes = ['registry-package:rw', 'account-profile:r']
    const { path, authorization, token, push } = await aPublisher(t, { scopes })
    await push('1.0.0')
    const bearer = { authorization: `Bearer ${token}` }
    const policy = {
      headers: { authorization, 'content-type': 'application/json' },
      payload: '{"packages":[]}',
    }
    const { open, countRunning, taken, release } = await holdPages()
    const pages = open(20, one)
    await taken()
    const isDone = vi.fn()
    const waiting = [
      t.app.inject({ url: '/', remoteAddress: one }),
      t.app.inject({ url: '/api/user', headers: bearer, remoteAddress: one }),
      t.app.inject({ method: 'POST', url: `${path}policy/denied`, ...policy, remoteAddress: one }),
    ]
    for (const request of waiting) void request.then(isDone)

    const refresh = {
      headers: { authorization: basic('x'), 'content-type': 'application/x-www-form-urlencoded' },
      payload: 'grant_type=refresh_token&refresh_token=x',
    }
    const ahead = await Promise.all([
      t.app.inject({ url: '/', remoteAddress: other }),
      t.app.inject({ url: `${path}p2/acme/lib.json`, headers: { authorization }, remoteAddress: one }),
      t.app.inject({ url: '/healthz', remoteAddress: one }),
      t.app.inject({ method: 'POST', url: '/oauth2/token', ...refresh, remoteAddress: one }),
    ])
    expect(ahead.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 401])
    expect(await countRunning()).toBe(atOnceOfNetwork)
    expect(isDone).not.toHaveBeenCalled()

    await release()
    expect((await Promise.all(pages)).map(({ statusCode }) => statusCode)).toEqual(Array(20).fill(410))
    expect((await Promise.all(waiting)).map(({ statusCode }) => statusCode)).toEqual([200, 200, 200])
  })

  it('are refused with the time to wait when too many of a network wait, and none that waits is lost', async () => {
    const { token } = await aPublisher(t, { scopes: ['account-profile:r'] })
    const { open, taken, release } = await holdPages()
    const pages = open(atOnceOfNetwork + waitingOfNetwork, one)
    await taken()
    const page = await t.app.inject({ url: '/', remoteAddress: one })
    expect([page.statusCode, page.headers['retry-after']]).toEqual([429, '2'])
    expect(page.body).toContain('Your network sends too many requests at once: wait a moment and try again.')
    const headers = { authorization: `Bearer ${token}` }
    const endpoint = await t.app.inject({ url: '/api/user', headers, remoteAddress: one })
    expect([endpoint.statusCode, endpoint.headers['retry-after'], endpoint.json()]).toEqual([
      429,
      '2',
      { errcode: 8, errmsg: 'your network sends too many requests at once: wait a moment and try again' },
    ])
    expect((await t.app.inject({ url: '/', remoteAddress: other })).statusCode).toBe(200)
    await release()
    const statuses = (await Promise.all(pages)).map(({ statusCode }) => statusCode)
    expect(statuses).toEqual(Array(atOnceOfNetwork + waitingOfNetwork).fill(410))
    expect((await t.app.inject({ url: '/', remoteAddress: one })).statusCode).toBe(200)
  })

  it('all arrive for a browser that opens many tabs', async () => {
    const { repository, account, push } = await aPublisher(t)
    await push('1.0.0')
    const cookie = await signIn(t.app, account)
    const home = `/${repository.path}/packages/acme/lib`
    holdClock()
    const tabs = ['/', '/search?q=lib', home, `${home}/-/files`, `/${repository.path}`, '/settings/account']
    const pages = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        t.app.inject({ url: tabs[i % tabs.length] as string, headers: { cookie }, remoteAddress: one }),
      ),
    )
    expect(pages.map(({ statusCode }) => statusCode)).toEqual(Array(30).fill(200))
  })

  it('take one turn each, also for HEAD, and for the page that requests the description of the API', async () => {
    holdClock()
    const twice = 2 * atOnceOfNetwork
    const all = await Promise.all([
      ...Array.from({ length: twice }, () => t.app.inject({ method: 'HEAD', url: '/' })),
      ...Array.from({ length: twice }, () => t.app.inject('/docs/api')),
    ])
    expect(all.map(({ statusCode }) => statusCode)).toEqual(Array(2 * twice).fill(200))
  })
})

describe('clients with slow connections', () => {
  /** Opens a connection and sends text. */
  async function send(text: string): Promise<Socket> {
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    await once(socket, 'connect')
    socket.write(text)
    return socket
  }
  const slow = 2 * atOnceOfNetwork
  const openPage = async () => (await t.app.inject({ url: '/', remoteAddress: '127.0.0.1' })).statusCode

  it('take no turn while they send a form', async () => {
    const type = 'application/x-www-form-urlencoded'
    for (let i = 0; i < slow; i += 1) {
      await send(
        `POST /login HTTP/1.1\r\nHost: svc.test\r\nContent-Type: ${type}\r\nContent-Length: 99\r\n\r\na=`,
      )
    }
    expect(await openPage()).toBe(200)
  })

  it('take no turn while they download an archive from a page', async () => {
    const { repository, push } = await aPublisher(t, { visibility: 'public' })
    const large = { name: 'large', content: randomBytes(24 * 1024 ** 2), method: 0 }
    const manifest = { name: 'composer.json', content: '{"name":"acme/large"}' }
    const pushed = await push('1.0.0', { name: 'acme/large', payload: craftZip([manifest, large]) })
    expect(pushed.statusCode).toBe(201)
    const url = `/${repository.path}/packages/acme/large/-/download?version=1.0.0`
    for (let i = 0; i < slow; i += 1) {
      const socket = await send(`GET ${url} HTTP/1.1\r\nHost: svc.test\r\n\r\n`)
      // The archive begins to arrive, and nobody reads on.
      await once(socket, 'readable')
    }
    expect(await openPage()).toBe(200)
  })
})
