import type { LightMyRequestResponse } from 'fastify'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listOfferedPackages } from '../../src/packages/tables/listed-packages.ts'
import { searchPackages } from '../../src/packages/tables/matching-packages.ts'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { useApp } from '../support/app.ts'
import { aPublisher, type Publisher } from '../support/registry-actors.ts'
import { anAuthorizedApplication, ask } from '../support/token-client.ts'

type Act = () => Promise<{ statusCode: number }>

/** The maximum number of rows and blocks: more than indexed reads need, and less than any large table or index has. */
const few = 300

describe.each([
  ['never gathered', 'never'],
  ['gathered while there was little', 'before'],
  ['gathered since', 'after'],
])('however much there is, by indexes alone, with statistics %s', (_title, analyzed) => {
  const t = useApp()
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
    if (analyzed === 'before') await t.db.query('vacuum analyze')
    await addACrowd(t.db)
    if (analyzed === 'after') await t.db.query('vacuum analyze')
  })

  afterAll(() => {
    pg.Client.prototype.connect = connect as never
  })

  async function addACrowd(db: pg.Pool): Promise<void> {
    await db.query(
      `insert into account (username, password_hash) select 'crowd' || i, '' from generate_series(1, 5000) i`,
    )
    await db.query(
      `insert into application (client_id, name, website, redirect_uri, logo, scopes, resource_scope, status)
       select 'crowd' || i + 100000, name, website, redirect_uri, logo, scopes, resource_scope, status
         from application, generate_series(1, 3000) i`,
    )
    await db.query(
      `insert into application_secret (secret_hash, application_id) select sha256(client_id::bytea), id from application`,
    )
    // One application is used by everyone, and one account uses every application.
    await db.query(
      `insert into account_authorization (account_id, application_id, scopes, resource_scope)
       select a.id, c.id, c.scopes, 'all' from account a, application c
        where (c.id = $1 or a.id = $2) and a.username || c.client_id like '%crowd%'`,
      [client.application.id, client.account.id],
    )
    await db.query(
      `insert into authorization_grant (id, authorization_id, account_id, application_id, scopes, resource_scope)
       select id, id, account_id, application_id, scopes, 'all' from account_authorization
       on conflict do nothing`,
    )
    await db.query(
      `insert into token_pair (authorization_id, access_hash, access_scopes, access_expires_at,
                               refresh_hash, refresh_scopes, refresh_expires_at)
       select id, sha256(('a' || id)::bytea), '{account-profile:r}', now() + interval '8 hours',
              sha256(('r' || id)::bytea), '{account-profile:r}', now() + interval '180 days'
         from account_authorization`,
    )
    await db.query(
      `insert into authorization_code (code_hash, authorization_id, redirect_uri, scopes, expires_at)
       select sha256(('c' || id)::bytea), id, 'https://app.example.com/', '{account-profile:r}', now() + interval '10 minutes'
         from account_authorization`,
    )
    await db.query(
      `insert into personal_token (account_id, name, token_hash, scopes, resource_scope, expires_at)
       select id, 'crowd', sha256(('p' || id)::bytea), '{registry-package:r}', 'all', now() + interval '90 days' from account`,
    )
    await db.query(
      `insert into repository (group_id, name, description)
       select group_id, 'crowd' || i, repeat('x', 350) from repository r, generate_series(1, 2000) i where r.id = $1`,
      [publisher.repository.id],
    )
    await db.query(
      `insert into repository_member (repository_id, account_id, role)
       select $1, id, 'guest' from account where username like 'crowd%'`,
      [publisher.repository.id],
    )
    await db.query(
      `insert into package (repository_id, name) select $1, 'crowd/p' || i from generate_series(1, 5000) i`,
      [publisher.repository.id],
    )
    await db.query(
      `insert into package_document (package_id, is_dev, base_url, last_modified, plain, gzip, brotli)
       select p.id, d.is_dev, d.base_url, d.last_modified, d.plain, d.gzip, d.brotli
         from package p, package_document d join package o on o.id = d.package_id
        where p.name like 'crowd/%' and o.name = 'acme/lib'`,
    )
    await db.query(
      `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256)
       select p.id, v.version, v.composer, v.normalized, v.is_dev, v.sort_key, v.metadata, v.sha256
         from package p, package_version v where p.name like 'crowd/%'`,
    )
  }

  /** Returns the rows and blocks of tables and indexes that the database read for an act. */
  async function readsOf(act: Act): Promise<number> {
    const before = await countReads()
    expect((await act()).statusCode).toBe(200)
    return (await countReads()) - before
  }

  async function countReads(): Promise<number> {
    for (const client of clients) {
      // A pool may have just closed it. Then its counts are already flushed.
      await client.query('select pg_stat_force_next_flush()').catch(() => clients.delete(client))
    }
    const { rows } = await t.db.query<{ reads: number }>(
      `select sum(coalesce(b.heap_blks_read, 0) + coalesce(b.heap_blks_hit, 0)
                + coalesce(b.idx_blks_read, 0) + coalesce(b.idx_blks_hit, 0)
                + coalesce(r.seq_tup_read, 0) + coalesce(r.idx_tup_fetch, 0))::integer as reads
         from pg_statio_user_tables b join pg_stat_user_tables r using (relid)`,
    )
    return rows[0]?.reads ?? Number.NaN
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

  it('searches packages', async () => {
    const client = await t.db.connect()
    try {
      await client.query(`set track_functions = 'pl'`)
      for (const word of ['p4321', 'p4', 'li', 'nothing']) {
        const { results } = await searchPackages(client, publisher.repository.id, [word], null)
        expect([word, results.length > 0]).toEqual([word, word !== 'nothing'])
        const part = { after: null, limit: 10 }
        const listed = await listOfferedPackages(client, publisher.repository.id, word, part)
        expect([word, listed.length > 0]).toEqual([word, word !== 'nothing'])
      }
      await client.query('select pg_stat_force_next_flush()')
      // Without the index, the plan computes the grams of every package.
      const { rows } = await client.query(
        `select calls from pg_stat_user_functions where funcname = 'search_grams'`,
      )
      expect(rows).toEqual([])
    } finally {
      await client.query('reset track_functions')
      client.release()
    }
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
