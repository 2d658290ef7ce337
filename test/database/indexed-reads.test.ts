import type { LightMyRequestResponse } from 'fastify'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listOfferedPackages } from '../../src/packages/tables/listed-packages.ts'
import { searchPackages } from '../../src/packages/tables/matching-packages.ts'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { issuersHere, useCiIssuer } from '../support/ci-issuer.ts'
import { addCrowd } from '../support/crowd.ts'
import { aTrustedRepository, jobClaims, pullWith } from '../support/publisher-actors.ts'
import { aPublisher, type Publisher } from '../support/registry-actors.ts'
import { countCalls, countReads, flushStatistics, vacuum } from '../support/statistics.ts'
import { anAuthorizedApplication, ask, postForm } from '../support/token-client.ts'

type Act = () => Promise<{ statusCode: number }>

/** The maximum number of rows and blocks: more than indexed reads need, and less than any large table or index has. */
const few = 300

describe.each([
  ['never gathered', 'never'],
  ['gathered while there was little', 'before'],
  ['gathered since', 'after'],
])('however much there is, by indexes alone, with statistics %s', (_title, analyzed) => {
  const t = useApp(issuersHere)
  const ci = useCiIssuer()
  const clients = new Set<pg.Client>()
  const connect = Reflect.get(pg.Client.prototype, 'connect') as (...given: unknown[]) => unknown
  let publisher: Publisher
  let dist: string
  let client: Awaited<ReturnType<typeof anAuthorizedApplication>>

  beforeAll(async () => {
    t.db.on('acquire', (one) => clients.add(one as unknown as pg.Client))
    t.db.on('remove', (one) => clients.delete(one as unknown as pg.Client))
    // The server's other pools have their own connections. On a slow machine a pool closes those that were idle for long.
    pg.Client.prototype.connect = function (this: pg.Client, ...given: unknown[]) {
      clients.add(this)
      this.once('end', () => clients.delete(this))
      return connect.apply(this, given)
    } as never
    publisher = await aPublisher(t)
    const { url } = (await publisher.push('1.0.0')).json() as { url: string }
    dist = url.split('/-/packages/')[1] ?? ''
    // Render the document once, because this reads every name.
    await publisher.ask('packages.json')
    client = await anAuthorizedApplication(t)
    if (analyzed === 'before') await vacuum(t.db)
    await addCrowd(t.db, { ...client, repository: publisher.repository, issuer: ci.issuer })
    if (analyzed === 'after') await vacuum(t.db)
  })

  afterAll(() => {
    pg.Client.prototype.connect = connect as never
  })

  /** Returns the rows and blocks of tables and indexes that the database read for an act. */
  async function readsOf(act: Act): Promise<number> {
    const before = await countAllReads()
    expect((await act()).statusCode).toBe(200)
    return (await countAllReads()) - before
  }

  async function countAllReads(): Promise<number> {
    for (const client of clients) {
      // A pool may have just closed it. Then its counts are already flushed.
      await flushStatistics(client).catch(() => clients.delete(client))
    }
    return countReads(t.db)
  }

  it.each<[string, () => string]>([
    ['packages.json', () => 'packages.json'],
    ['p2', () => 'p2/acme/lib.json'],
    ['an archive', () => dist],
  ])('pulls %s', async (_name, path) => {
    const reads = await readsOf(() => publisher.ask(path()))
    expect(reads).toBeGreaterThan(0)
    expect(reads).toBeLessThan(few)
  })

  it('exchanges identity tokens, and pulls with the tokens', async () => {
    const { repository } = publisher
    const { exchange } = await aTrustedRepository(t, ci, {}, repository)
    // The first exchange reads the keys of the issuer.
    await exchange(await ci.sign(jobClaims))
    const identity = await ci.sign(jobClaims)
    let token = ''
    const reads = {
      exchange: await readsOf(async () => {
        const response = await exchange(identity)
        token = response.json().access_token
        return response
      }),
      root: await readsOf(() => pullWith(t, repository, token)),
      p2: await readsOf(() => pullWith(t, repository, token, 'p2/acme/lib.json')),
      archive: await readsOf(() => pullWith(t, repository, token, dist)),
      stages: await readsOf(() => callApi(t, token, 'GET', `/api/repositories/${repository.path}/stages`)),
      revoke: await readsOf(() => postForm(t, '/oauth2/revoke', `token=${token}`)),
    }
    expect(Object.entries(reads).filter(([, count]) => !(count > 0 && count < few))).toEqual([])
  })

  it('searches packages', async () => {
    const { id } = publisher.repository
    const calls = await countCalls(t.db, 'search_text', async (client) => {
      for (const word of ['p1234', 'p1', 'li', 'nothing']) {
        const { results } = await searchPackages(client, id, [word], null)
        expect([word, results.length > 0]).toEqual([word, word !== 'nothing'])
        const listed = await listOfferedPackages(client, id, word, { after: null, limit: 10 })
        expect([word, listed.length > 0]).toEqual([word, word !== 'nothing'])
      }
    })
    // Without the index, the plan computes the text of every package.
    expect(calls).toBeGreaterThan(0)
    expect(calls).toBeLessThan(few)
  })

  it('exchanges, checks, refreshes and revokes tokens', async () => {
    let pair = {} as TokenResponse
    const noted = async (request: Promise<LightMyRequestResponse>) => {
      const response = await request
      pair = response.json()
      return response
    }
    const user = () =>
      t.app.inject({ url: '/api/user', headers: { authorization: `Bearer ${pair.access_token}` } })
    const code = await client.newCode()
    const reads = {
      exchange: await readsOf(() => noted(client.exchange(code))),
      user: await readsOf(user),
      introspect: await readsOf(() => ask(t, client.application, 'introspect', { token: pair.access_token })),
      refresh: await readsOf(() => noted(client.refresh(pair.refresh_token))),
      revokeAccess: await readsOf(() => client.revoke(pair.access_token)),
      revokeRefresh: await readsOf(() => client.revoke(pair.refresh_token)),
    }
    expect(Object.entries(reads).filter(([, count]) => !(count > 0 && count < few))).toEqual([])
  })
})
