import type { HTTPMethods } from 'fastify'
import { describe, expect, it } from 'vitest'
import { useApp } from '../support/app.ts'
import { listUrls } from '../support/form-urls.ts'

const t = useApp()

async function ask(method: HTTPMethods, url: string) {
  const { statusCode, headers } = await t.app.inject({ method, url })
  return { url, statusCode, allow: headers.allow, type: headers['content-type'] }
}

describe('a request with a method that its URL does not have', () => {
  it('gets the same 405 as every other such method, with the methods of the URL', async () => {
    const refused: string[] = []
    for (const url of listUrls(t.app).map((one) => one.replaceAll(':', 'x'))) {
      const expected = await ask('TRACE', url)
      const allowed = String(expected.allow).split(', ')
      for (const method of ['OPTIONS', 'PUT', 'PATCH'] as const)
        if (!allowed.includes(method)) expect(await ask(method, url)).toEqual(expected)
      if (expected.statusCode === 405 && allowed.every((method) => /^[A-Z]+$/.test(method))) refused.push(url)
    }
    expect(refused.length).toBeGreaterThan(250)
  })

  it.each([
    ['DELETE', '/acme/lib', 'GET, HEAD', 'text/html; charset=utf-8'],
    ['OPTIONS', '/acme/-/members?page=2', 'GET, HEAD, POST', 'text/html; charset=utf-8'],
    ['PUT', '/', 'GET, HEAD', 'text/html; charset=utf-8'],
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
