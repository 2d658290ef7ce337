import type { HTTPMethods } from 'fastify'
import { describe, expect, it } from 'vitest'
import { anAccount, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { listUrls } from '../support/form-urls.ts'

const t = useApp()

async function ask(method: HTTPMethods, url: string, cookie?: string) {
  const { statusCode, headers } = await t.app.inject({ method, url, headers: cookie ? { cookie } : {} })
  return { url, statusCode, allow: headers.allow, type: headers['content-type'] }
}

describe('a request with a method that its URL does not have', () => {
  it('gets the same 405 as every other such method, with the methods of the URL', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db, { isAdmin: true }))
    const refused: string[] = []
    for (const url of listUrls(t.app).map((one) => one.replaceAll(':', 'x'))) {
      const expected = await ask('TRACE', url, cookie)
      const allowed = String(expected.allow).split(', ')
      // A URL of a file, such as a picture, does not list its methods.
      const others = expected.statusCode === 405 ? (['GET', 'HEAD', 'POST', 'DELETE'] as const) : []
      for (const method of ['OPTIONS', 'PUT', 'PATCH', ...others] as const)
        if (!allowed.includes(method)) expect(await ask(method, url, cookie)).toEqual(expected)
      if (expected.statusCode === 405 && allowed.every((method) => /^[A-Z]+$/.test(method))) refused.push(url)
    }
    expect(refused.length).toBeGreaterThan(330)
  })

  it.each([
    ['DELETE', '/acme/lib', 'GET, HEAD', 'text/html; charset=utf-8'],
    ['OPTIONS', '/acme/-/members?page=2', 'GET, HEAD, POST', 'text/html; charset=utf-8'],
    ['PUT', '/', 'GET, HEAD', 'text/html; charset=utf-8'],
    ['POST', '/acme/lib/-/setup', 'GET, HEAD', 'text/html; charset=utf-8'],
    ['GET', '/logout', 'POST', 'text/html; charset=utf-8'],
    ['DELETE', '/oauth2/auth', 'GET, HEAD, POST', 'text/html; charset=utf-8'],
    [
      'DELETE',
      '/api/repositories/acme/lib/trusted-publishers/check',
      'POST',
      'application/json; charset=utf-8',
    ],
    ['PATCH', '/acme/lib/-/packages', 'GET, HEAD', 'application/json'],
    ['POST', '/acme/lib/-/packages/', 'GET, HEAD', 'application/json'],
    ['POST', '/api/scim/acme/v2/Schemas', 'GET, HEAD', 'application/scim+json; charset=utf-8'],
    ['TRACE', '/api/repositories/%61cme/lib', 'DELETE, GET, HEAD, PATCH', 'application/json; charset=utf-8'],
    ['OPTIONS', '/oauth2/token', 'POST', 'application/json;charset=UTF-8'],
  ] as const)('gets 405 for %s %s before its body is read', async (method, url, allow, type) => {
    const headers = { 'content-type': 'text/unknown' }
    const response = await t.app.inject({ method, url, headers, payload: 'a' })
    expect([response.statusCode, response.headers.allow, response.headers['content-type']]).toEqual([
      405,
      allow,
      type,
    ])
  })
})

describe('a request below /admin', () => {
  it.each([
    ['DELETE', '/admin', 405],
    ['GET', '/admin/applications/x/delete', 405],
    ['OPTIONS', '/admin/nothing', 404],
  ] as const)('gets 404 for %s %s, and %i if an administrator sends it', async (method, url, expected) => {
    const cookie = await signIn(t.app, await anAccount(t.db, { isAdmin: true }))
    const send = async (headers: object) =>
      (await t.app.inject({ method, url, headers: { ...headers } })).statusCode
    expect([await send({}), await send({ cookie })]).toEqual([404, expected])
  })
})

describe('a request for a URL that svc does not have', () => {
  it.each([
    ['DELETE', '/acme/lib/a/b/c', 'text/html; charset=utf-8'],
    ['TRACE', '/acme/lib/a/b/c', 'text/html; charset=utf-8'],
    ['OPTIONS', '/api/nothing/here', 'application/json; charset=utf-8'],
    ['GET', '/api/nothing/here', 'application/json; charset=utf-8'],
    ['TRACE', '/oauth2/nothing', 'application/json;charset=UTF-8'],
    ['PUT', '/oauth2/', 'application/json;charset=UTF-8'],
    ['OPTIONS', '/api/scim/acme/v2/nothing', 'application/scim+json; charset=utf-8'],
    ['DELETE', '/acme/lib/-/packages/nothing', 'application/json'],
  ] as const)('gets 404 for %s %s in the format of its scope', async (method, url, type) => {
    expect(await ask(method, url)).toEqual({ url, statusCode: 404, allow: undefined, type })
  })
})
