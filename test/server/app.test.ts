import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { makeSecret } from '../../src/domain/secrets.ts'
import { buildApp } from '../../src/server/app.ts'
import { openLog } from '../../src/server/log.ts'
import { useApp } from '../support/app.ts'
import { freePort } from '../support/listening.ts'
import { basicOf } from '../support/oauth-actors.ts'
import { postForm } from '../support/token-client.ts'

describe('a URL that cannot be decoded', () => {
  const t = useApp()

  it.each([
    ['/oauth2/%zz', 'application/json;charset=UTF-8', { error: 'invalid_request' }],
    ['/api/%zz', 'application/json; charset=utf-8', { errcode: 3 }],
    ['/acme/php/-/packages/p2/%zz.json', 'application/json', { errcode: 3 }],
  ])('is answered in the dialect of its door: %s', async (url, type, body) => {
    const answer = await t.app.inject(url)
    expect(answer.statusCode).toBe(400)
    expect(answer.headers['content-type']).toBe(type)
    expect(answer.json()).toMatchObject(body)
  })

  it('is answered with a page everywhere else', async () => {
    const answer = await t.app.inject('/acme/%zz')
    expect(answer.statusCode).toBe(400)
    expect(answer.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(answer.headers['content-security-policy']).toBeDefined()
  })
})

describe('a method that nobody knows', () => {
  const t = useApp()

  it.each([
    ['/oauth2/token', 'application/json;charset=UTF-8', { error: 'invalid_request' }],
    ['/api/user', 'application/json; charset=utf-8', { errcode: 5 }],
    ['/acme/php/-/packages/packages.json', 'application/json', { errcode: 5 }],
  ])('is answered in the dialect of its door: %s', async (url, type, body) => {
    const answer = await t.app.inject({ method: 'PROPFIND', url })
    expect(answer.statusCode).toBe(404)
    expect(answer.headers['content-type']).toBe(type)
    expect(answer.json()).toMatchObject(body)
  })

  it('is answered with a page everywhere else', async () => {
    const answer = await t.app.inject({ method: 'PROPFIND', url: '/acme/php' })
    expect(answer.statusCode).toBe(404)
    expect(answer.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(answer.headers['content-security-policy']).toBeDefined()
  })
})

describe('a database that cannot be reached', () => {
  const t = useApp()

  it('is no fault of the client: 503, in each dialect', async () => {
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
  })
})
