import pg from 'pg'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { aPublisher, type Publisher } from '../support/registry-actors.ts'
import { anAuthorizedApplication, ask } from '../support/token-client.ts'
import { markTokensUsed } from '../support/token-rows.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

/**
 * Timers write the uses of tokens and the downloads, for all requests of some time together. Their connection may be new.
 * The connections of requests plan each statement once, and say so when they are new.
 */
const isOfTimer = (text = '') =>
  text === 'touch-last-use' ||
  text === 'touch-grants' ||
  text === 'save-downloads' ||
  (text.startsWith('set statement_timeout') && !text.includes('force_generic_plan'))

/** Returns the statements that the pool sends during an act, also those in transactions. */
async function statementsOf(act: () => Promise<{ statusCode: number }>) {
  const query = vi.spyOn(pg.Client.prototype, 'query')
  try {
    const { statusCode } = await act()
    const statements = query.mock.calls.map(([statement]: unknown[]) => statement as pg.QueryConfig | string)
    const texts = statements.map((one) => (typeof one === 'string' ? one : (one.name ?? one.text)))
    return { statusCode, texts: texts.filter((text) => !isOfTimer(text)) }
  } finally {
    query.mockRestore()
  }
}

describe('one round trip to the database (CONTRACT 5.5, 7.6)', () => {
  const t = useApp(upstreamsHere)
  const upstream = useUpstream()
  let publisher: Publisher
  let dist: string
  let lastModified: string
  /** Stores a use of every token. Otherwise a timer writes the event of the first use, maybe during a test. */
  const noteFirstUse = () => markTokensUsed(t.db)

  beforeAll(async () => {
    publisher = await aPublisher(t, { visibility: 'private' })
    await noteFirstUse()
    const response = await publisher.push('1.0.0')
    dist = response.json<{ url: string }>().url.split('/-/packages/')[1] ?? ''
    // Render the document, because the upload has published a new name.
    await publisher.ask('packages.json')
    lastModified = String((await publisher.ask('p2/acme/lib.json')).headers['last-modified'])
  })

  it.each<[string, () => string, number, () => Record<string, string | undefined>]>([
    ['packages.json', () => 'packages.json', 200, () => ({})],
    ['p2', () => 'p2/acme/lib.json', 200, () => ({})],
    ['p2, not modified', () => 'p2/acme/lib.json', 304, () => ({ 'if-modified-since': lastModified })],
    ['p2 of no package', () => 'p2/acme/none.json', 404, () => ({})],
    ['p2 without a token', () => 'p2/acme/lib.json', 401, () => ({ authorization: undefined })],
    ['an archive', () => dist, 200, () => ({})],
    ['a part of an archive', () => dist, 206, () => ({ range: 'bytes=0-9' })],
    [
      'an archive that is not there',
      () => dist.replace(/.{64}\.zip$/, `${'0'.repeat(64)}.zip`),
      404,
      () => ({}),
    ],
  ])('serves %s with one named statement', async (_name, path, status, headers) => {
    const { statusCode, texts } = await statementsOf(() => publisher.ask(path(), { headers: headers() }))
    expect(statusCode).toBe(status)
    expect(texts).toEqual([
      expect.stringMatching(/^list-(package-documents|root-documents|downloads)-(personal|no-token)$/),
    ])
  })

  it('answers what the rules of a group deny with one named statement', async () => {
    const payload = JSON.stringify({ packages: ['pkg://composer/acme/lib'], lists: ['denied'] })
    const headers = { 'content-type': 'application/json' }
    const { statusCode, texts } = await statementsOf(() =>
      publisher.ask('policy/denied', { method: 'POST', headers, payload }),
    )
    expect([statusCode, texts]).toEqual([200, ['find-policy']])
  })

  it('reads a mirrored package with one named statement, once it is known', async () => {
    upstream.offer('psr/log', [{ version: '3.0.0' }])
    const { call, ask: pull } = await aCaller(t)
    await noteFirstUse()
    expect((await call('POST', '/upstreams', { url: upstream.url, name: 'public' })).statusCode).toBe(201)
    const first = await pull('p2/psr/log.json')
    const known = { 'if-modified-since': String(first.headers['last-modified']) }
    for (const [headers, status] of [
      [{}, 200],
      [known, 304],
    ] as const) {
      const { statusCode, texts } = await statementsOf(() => pull('p2/psr/log.json', { headers }))
      expect([statusCode, texts]).toEqual([status, ['list-any-documents-personal']])
    }
  })

  it('reads nothing again after the first request for a mirrored package has stored it', async () => {
    for (const name of ['psr/one', 'psr/two']) upstream.offer(name, [{ version: '1.0.0' }])
    const { call, ask: pull } = await aCaller(t)
    await noteFirstUse()
    expect((await call('POST', '/upstreams', { url: upstream.url, name: 'public' })).statusCode).toBe(201)
    await pull('p2/psr/one.json')
    const { statusCode, texts } = await statementsOf(() => pull('p2/psr/two.json'))
    expect(statusCode).toBe(200)
    expect(texts).toEqual([
      'list-any-documents-personal',
      'take-check-turns',
      expect.stringContaining('begin'),
      'bind-mirrored-packages',
      'flag-bound-packages',
      'save-upstream-contents',
      'set-mirrors-gone',
      'list-mirror-rules',
      'note-mirrored-archives',
      'save-descriptions',
      'insert-events',
      'save-mirror-documents',
      'commit',
    ])
  })

  it('sends no query for a token with a wrong checksum', async () => {
    const { texts } = await statementsOf(() =>
      publisher.ask('packages.json', { headers: { authorization: 'Bearer svcp_0' } }),
    )
    expect(texts).toEqual([])
  })

  it('runs one named statement for each token request', async () => {
    const client = await anAuthorizedApplication(t)
    const code = await client.newCode()
    let pair = {} as TokenResponse
    const exchange = await statementsOf(async () => {
      const response = await client.exchange(code)
      pair = response.json()
      return response
    })
    expect(exchange).toEqual({ statusCode: 200, texts: ['exchange-codes'] })
    const { access_token, refresh_token } = pair
    expect((await statementsOf(() => client.refresh(refresh_token))).texts).toEqual(['refresh-pairs'])
    expect((await statementsOf(() => client.refresh(refresh_token))).texts).toEqual(['refresh-pairs'])
    const introspect = await statementsOf(() =>
      ask(t, client.application, 'introspect', { token: access_token }),
    )
    expect(introspect).toEqual({ statusCode: 200, texts: ['introspect-tokens'] })
    const headers = { authorization: `Bearer ${access_token}` }
    const user = await statementsOf(() => t.app.inject({ url: '/api/user', headers }))
    expect(user).toEqual({ statusCode: 200, texts: ['list-token-holders'] })
    const revoke = await statementsOf(() => client.revoke(access_token))
    expect(revoke).toEqual({ statusCode: 200, texts: ['revoke-tokens'] })
  })
})

describe('connections for pulls and tokens', () => {
  const t = useApp()

  it('are free while all other connections are in use', async () => {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const client = await anAuthorizedApplication(t)
    const { access_token, refresh_token } = (
      await client.exchange(await client.newCode())
    ).json<TokenResponse>()
    const held = await Promise.all(Array.from({ length: t.db.options.max }, () => t.db.connect()))
    try {
      expect((await publisher.ask('packages.json')).statusCode).toBe(200)
      expect((await publisher.ask('p2/acme/lib.json')).statusCode).toBe(200)
      expect((await client.refresh(refresh_token)).statusCode).toBe(200)
      const introspected = await ask(t, client.application, 'introspect', { token: access_token })
      expect(introspected.statusCode).toBe(200)
    } finally {
      for (const connection of held) connection.release()
    }
  })
})
