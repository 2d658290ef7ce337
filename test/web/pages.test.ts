import { describe, expect, it, vi } from 'vitest'
import { anAccount, cookiesOf, csrfTokenIn, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { cancelWaiting, lockTables, openTransaction } from '../support/locks.ts'

describe('a URL that does not exist', () => {
  const t = useApp()

  it('gets a page, with the headers of a page', async () => {
    const response = await t.app.inject('/nothing')
    expect(response.statusCode).toBe(404)
    expect(response.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'x-frame-options': 'DENY',
    })
    expect(response.headers['content-security-policy']).toContain("form-action 'self'")
  })

  it.each(['/%zz', '/%ff', '/a%00b', `/${'a'.repeat(6000)}`])('gets one for %.20s as well', async (url) => {
    const response = await t.app.inject(url)
    expect([400, 404, 414]).toContain(response.statusCode)
    expect(response.headers['content-type']).toBe('text/html; charset=utf-8')
  })

  it.each(['/nothing', '/%zz', '/a%00b'])('keeps the menu of a signed-in person: %s', async (url) => {
    const account = await anAccount(t.db)
    const { statusCode, body } = await t.app.inject({
      url,
      headers: { cookie: await signIn(t.app, account) },
    })
    expect([400, 404]).toContain(statusCode)
    expect(body).toContain(account.username)
    expect(body).toContain('Sign out')
  })
})

describe('a page that fails', () => {
  const t = useApp()

  it('keeps the menu of a signed-in person, and offers to try again', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    await t.db.query('alter table repository rename to lost')
    const { statusCode, body } = await t.app.inject({ url: '/explore?q=x', headers: { cookie } })
    expect(statusCode).toBe(500)
    expect(body).toContain('Sign out')
    expect(body).toContain('href="/explore?q=x">Try again</a>')
  })
})

describe('GET /assets/…/script.js', () => {
  const t = useApp()

  it('is small, and the only script that the policy of pages allows', async () => {
    const { body, headers } = await t.app.inject('/docs')
    const [, url] = /<script src="([^"]+)" defer><\/script>/.exec(body) ?? []
    const script = await t.app.inject(url as string)
    expect(script.headers['content-type']).toBe('text/javascript; charset=utf-8')
    expect(script.rawPayload.length).toBeLessThan(15_000)
    expect(body.match(/<script/g)).toHaveLength(1)
    expect(headers['content-security-policy']).toContain("script-src 'self';")
  })
})

describe('GET /assets/…', () => {
  const t = useApp()

  it('returns the stylesheet of the pages, which caches may keep forever', async () => {
    const { body } = await t.app.inject('/login')
    const url = /rel="stylesheet" href="([^"]+)"/.exec(body)?.[1] as string
    const response = await t.app.inject(url)
    expect(response.statusCode).toBe(200)
    expect(response.headers).toMatchObject({
      'content-type': 'text/css; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      'x-content-type-options': 'nosniff',
    })
    expect(response.rawPayload.length).toBeLessThan(30_000)
  })
})

describe('a page whose statement PostgreSQL ends', () => {
  const t = useApp()

  it('says that the database needed too much time', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const { tx, rollback } = await openTransaction(t.db)
    await lockTables(tx, 'repository')
    const opened = t.app.inject({ url: '/', headers: { cookie } })
    try {
      // The timeout and this function end a statement with the same error code.
      await vi.waitFor(async () => expect(await cancelWaiting(tx)).toBe(1), 60_000)
    } finally {
      await rollback()
    }
    const { statusCode, headers, body } = await opened
    expect([statusCode, headers['retry-after']]).toEqual([503, '5'])
    expect(body).toContain('The database needed too much time for this. Please try again in a few seconds.')
  })
})

describe('a request with a repeated parameter', () => {
  const t = useApp()

  it('is refused with the next step', async () => {
    const opened = await t.app.inject('/search?q=a&q=b')
    expect(opened.statusCode).toBe(400)
    expect(opened.body).toContain('The parameter q is repeated. Open the page from its link again.')
    const form = await t.app.inject('/login')
    const username = ['ann', 'bob']
    const sent = await post(t.app, '/login', cookiesOf(form), { csrf_token: csrfTokenIn(form), username })
    expect(sent.statusCode).toBe(400)
    expect(sent.body).toContain('is repeated. Go back, reload the page, and submit the form once.')
  })
})

describe('a request for a page with a method that it does not support', () => {
  const t = useApp()

  it.each([
    ['DELETE', '/login', 'GET, HEAD, POST'],
    ['PUT', '/settings/tokens', 'GET, HEAD, POST'],
    ['GET', '/logout', 'POST'],
    ['GET', '/settings/account/verification', 'POST'],
    ['POST', '/', 'GET, HEAD'],
  ] as const)('refuses %s %s and says what it has', async (method, url, allow) => {
    const response = await t.app.inject({ method, url })
    expect(response.statusCode).toBe(405)
    expect(response.headers.allow).toBe(allow)
    expect(response.headers['content-type']).toBe('text/html; charset=utf-8')
  })
})
