import pg from 'pg'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { useApp } from './support/app.ts'
import { aPublisher, type Publisher } from './support/registry-actors.ts'
import { anAuthorizedApplication, ask } from './support/token-client.ts'

/** A node of a plan, as `explain (format json)` shows it. */
interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  Plans?: PlanNode[]
}

const t = useApp()
let publisher: Publisher
let dist: string

/** What grows with the number of people and packages. */
const large = [
  'account',
  'repository',
  'token_pair',
  'personal_token',
  'package',
  'package_version',
  'package_document',
]

beforeAll(async () => {
  publisher = await aPublisher(t)
  const { url } = (await publisher.push('1.0.0')).json() as { url: string }
  dist = url.split('/-/packages/')[1] ?? ''
  const { authorization } = await anAuthorizedApplication(t)
  const { rows } = await t.db.query<{ packageId: string }>('select id as "packageId" from package')
  await t.db.query(
    `insert into account (username, password_hash) select 'crowd' || i, '' from generate_series(1, 5000) i`,
  )
  await t.db.query(
    `insert into personal_token (account_id, name, token_hash, scopes, resource_scope, expires_at)
     select id, 'crowd', sha256(('p' || id)::bytea), '{registry-package:r}', 'all', now() + interval '90 days' from account`,
  )
  await t.db.query(
    `insert into token_pair (authorization_id, access_hash, access_scopes, access_expires_at,
                             refresh_hash, refresh_scopes, refresh_expires_at)
     select $1, sha256(('a' || i)::bytea), '{account-profile:r}', now() + interval '8 hours',
            sha256(('r' || i)::bytea), '{account-profile:r}', now() + interval '180 days'
       from generate_series(1, 5000) i`,
    [authorization.id],
  )
  await t.db.query(
    `insert into repository (group_id, name) select group_id, 'crowd' || i from repository r, generate_series(1, 2000) i
      where r.id = $1`,
    [publisher.repository.id],
  )
  await t.db.query(
    `insert into package (repository_id, name) select $1, 'crowd/p' || i from generate_series(1, 5000) i`,
    [publisher.repository.id],
  )
  await t.db.query(
    `insert into package_document (package_id, is_dev, base_url, last_modified, plain, gzip, brotli)
     select p.id, d.is_dev, d.base_url, d.last_modified, d.plain, d.gzip, d.brotli
       from package p, package_document d where p.name like 'crowd/%' and d.package_id = $1`,
    [rows[0]?.packageId],
  )
  await t.db.query(
    `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256)
     select p.id, v.version, v.composer, v.normalized, v.is_dev, v.sort_key, v.metadata, v.sha256
       from package p, package_version v where p.name like 'crowd/%' and v.package_id = $1`,
    [rows[0]?.packageId],
  )
  await t.db.query('vacuum analyze')
})

/** The large tables that the statements of a request would read as a whole, planned for any values. */
async function tablesReadWhole(act: () => Promise<{ statusCode: number }>): Promise<string[]> {
  const query = vi.spyOn(pg.Client.prototype, 'query')
  const statements = await act().then(({ statusCode }) => {
    expect(statusCode).toBe(200)
    return query.mock.calls.map(([one]: unknown[]) => one as pg.QueryConfig)
  })
  query.mockRestore()
  expect(statements).not.toEqual([])
  const plans = await Promise.all(
    statements.map(async ({ text }) => {
      const { rows } = await t.db.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `explain (generic_plan, format json) ${text}`,
      )
      return rows[0]?.['QUERY PLAN'][0].Plan as PlanNode
    }),
  )
  return plans.flatMap(scanned).filter((table) => large.includes(table))
}

function scanned(node: PlanNode): string[] {
  const own = node['Node Type'] === 'Seq Scan' ? [node['Relation Name'] ?? ''] : []
  return [...own, ...(node.Plans ?? []).flatMap(scanned)]
}

describe('however much there is, by indexes alone', () => {
  it.each<[string, () => string]>([
    ['packages.json', () => 'packages.json'],
    ['p2', () => 'p2/acme/lib.json'],
    ['an archive', () => dist],
  ])('pulls %s', async (_name, path) => {
    expect(await tablesReadWhole(() => publisher.ask(path()))).toEqual([])
  })

  it('checks a token that is presented', async () => {
    const client = await anAuthorizedApplication(t)
    const { access_token: token } = await client.tokens()
    const headers = { authorization: `Bearer ${token}` }
    expect(await tablesReadWhole(() => t.app.inject({ url: '/api/user', headers }))).toEqual([])
    expect(await tablesReadWhole(() => ask(t, client.application, 'introspect', { token }))).toEqual([])
  })
})
