import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import { operator } from '../../../src/domain/principal.ts'
import { importOsv } from '../../../src/packages/osv/import-osv.ts'
import { maxOsvBytes } from '../../../src/packages/osv/read-osv.ts'
import { aRepository, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { aCaller } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { useCommands } from '../../support/commands.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { openTransaction, untilWaiting } from '../../support/locks.ts'
import { lockPackage } from '../../support/package-rows.ts'

const t = useApp()
const svc = useCommands(t)

/** What the OSV schema requires of a record, and no other members. */
const OsvSchema = z.array(
  z.strictObject({
    schema_version: z.string().regex(/^1\.\d+\.\d+$/),
    // Databases that the schema does not list have this prefix.
    id: z.string().regex(/^x_/),
    modified: z.iso.datetime(),
    published: z.iso.datetime(),
    withdrawn: z.iso.datetime().optional(),
    aliases: z.array(z.string()),
    summary: z.string(),
    affected: z.array(
      z.strictObject({
        package: z.strictObject({
          ecosystem: z.string().regex(/^Packagist:https?:\/\/.+[^/]$/),
          name: z.string(),
          purl: z.string().regex(/^pkg:composer\/[^/]+\/[^/?]+\?repository_url=[^/:]+$/),
        }),
        ranges: z.array(
          z.strictObject({
            type: z.literal('ECOSYSTEM'),
            events: z
              .array(
                z.union([
                  z.strictObject({ introduced: z.string() }),
                  z.strictObject({ fixed: z.string() }),
                  z.strictObject({ last_affected: z.string() }),
                ]),
              )
              .refine((events) => events.some((event) => 'introduced' in event))
              .refine((events) => !events.some((event) => 'fixed' in event && 'last_affected' in event)),
          }),
        ),
        versions: z.array(z.string()),
        database_specific: z.looseObject({}),
      }),
    ),
    references: z.array(z.strictObject({ type: z.literal('ADVISORY'), url: z.url() })),
    database_specific: z.looseObject({}).optional(),
  }),
)

/** A record about acme/lib. */
function aRecord(id: string, fixed: string, others: object = {}) {
  return {
    id,
    modified: '2026-11-01T10:00:00Z',
    published: '2026-10-01T10:00:00Z',
    summary: `About ${id}`,
    affected: [
      {
        package: { ecosystem: 'Packagist', name: 'acme/lib' },
        ranges: [{ type: 'ECOSYSTEM', events: [{ introduced: '0' }, { fixed }] }],
      },
    ],
    ...others,
  }
}

/** An admin of a repository with versions of acme/lib, and the calls of imports and exports. */
async function aPlace(...versions: string[]) {
  const caller = await aCaller(t)
  for (const version of versions) await caller.push(version)
  const { repository, token, call, ask } = caller
  const importAs = async (by: string, records: object[], query = '') =>
    t.app.inject({
      method: 'POST',
      url: `/api/repositories/${repository.path}/advisories/import${query}`,
      headers: { authorization: `Bearer ${by}`, 'content-type': 'application/x-www-form-urlencoded' },
      payload: Buffer.from(records.map((record) => JSON.stringify(record)).join('\n')),
    })
  return {
    ...caller,
    importAs,
    /** The outcomes by id. */
    send: async (records: object[], query = '', by = token) => {
      const response = await importAs(by, records, query)
      expect(response.statusCode, response.body).toBe(200)
      const list = response.json<{ id: string; outcome: string; reason: string | null }[]>()
      return Object.fromEntries(list.map(({ id, outcome, reason }) => [id, reason ?? outcome]))
    },
    known: async () => (await call('GET', '/packages/acme/lib/advisories')).json<Record<string, string>[]>(),
    documented: async () => (await ask('p2/acme/lib.json')).json()['security-advisories'],
    exported: async () => (await call('GET', '/advisories/osv')).json<Record<string, unknown>[]>(),
  }
}

describe('POST …/advisories/import', () => {
  it('adds, changes and withdraws advisories by their id, with documents and events, and the same file changes nothing', async () => {
    const { repository, send, known, documented } = await aPlace('1.0.0')
    const first = aRecord('GHSA-1', '1.2', {
      aliases: ['CVE-2026-1111'],
      database_specific: { severity: 'HIGH' },
    })
    const foreign = aRecord('GHSA-2', '1.0', {
      affected: [{ package: { ecosystem: 'Packagist', name: 'other/lib' }, versions: ['1.0'] }],
    })
    const file = [first, foreign]
    const expected = { 'GHSA-1': 'added', 'GHSA-2': 'the repository publishes no such package' }
    expect(await send(file, '?dry_run=true')).toEqual(expected)
    expect(await known()).toEqual([])
    expect(await send(file)).toEqual(expected)
    const [made] = await known()
    expect(made).toMatchObject({
      advisory_id: expect.stringMatching(/^SVC-/),
      title: 'About GHSA-1',
      affected_versions: '<1.2',
      cve: 'CVE-2026-1111',
      severity: 'high',
      reported_at: '2026-10-01T10:00:00.000Z',
    })
    expect(await documented()).toMatchObject([
      {
        sources: [
          { name: 'svc', remoteId: made?.['advisory_id'] },
          { name: 'OSV', remoteId: 'GHSA-1' },
        ],
      },
    ])
    expect(await send(file)).toMatchObject({ 'GHSA-1': 'unchanged' })
    const later = { ...first, modified: '2026-11-02T10:00:00Z', summary: 'It leaks more' }
    expect(await send([later, first])).toEqual({ 'GHSA-1': 'a newer form of it was imported before' })
    expect(await documented()).toMatchObject([{ title: 'It leaks more' }])
    expect(await send([{ ...later, withdrawn: '2026-11-03T10:00:00Z' }])).toEqual({ 'GHSA-1': 'withdrawn' })
    expect(await documented()).toEqual([])
    expect(await send([later])).toEqual({ 'GHSA-1': 'it was withdrawn here' })
    const about = { repositoryId: repository.id, action: ['advise', 'change-advisory', 'withdraw'] } as const
    const events = await eventsOf(t.db, { ...about, action: [...about.action] }, ['action', 'details'])
    expect(events).toMatchObject([
      { action: 'advise', details: { osv_id: 'GHSA-1', title: 'About GHSA-1' } },
      { action: 'change-advisory', details: { title: 'It leaks more', from: { title: 'About GHSA-1' } } },
      { action: 'withdraw', details: { advisory_id: made?.['advisory_id'] } },
    ])
  })

  it('adds nothing that an active advisory is about, and at most 500 advisories of a package', async () => {
    const { call, send, known } = await aPlace('1.0.0')
    await call('POST', '/packages/acme/lib/advisories', {
      title: 'Ours',
      affected_versions: '<1.1',
      cve: 'CVE-2026-2222',
    })
    const [own] = await known()
    const many = Array.from({ length: 500 }, (_, i) => aRecord(`OSV-${i}`, '1.0'))
    const outcomes = await send([aRecord('GHSA-3', '1.1', { aliases: ['CVE-2026-2222'] }), ...many])
    expect(outcomes['GHSA-3']).toBe(`the advisory ${own?.['advisory_id']} is about CVE-2026-2222`)
    expect(Object.values(outcomes).filter((outcome) => outcome === 'added')).toHaveLength(499)
    expect(outcomes['OSV-499']).toBe('the package has 500 advisories, which is the maximum')
  })

  it('lets people who may push add advisories, and only admins change and withdraw them', async () => {
    const { repository, send, importAs } = await aPlace('1.0.0')
    const developer = await aCaller(t, { repository, role: 'developer' })
    const guest = await aCaller(t, { repository, role: 'guest' })
    const first = aRecord('GHSA-4', '1.2')
    expect((await importAs(guest.token, [first])).statusCode).toBe(403)
    expect(await send([first], '', developer.token)).toEqual({ 'GHSA-4': 'added' })
    const weaker = aRecord('GHSA-4', '0.1', { modified: '2026-11-05T10:00:00Z' })
    expect(await send([weaker], '', developer.token)).toEqual({
      'GHSA-4': 'only an admin changes an advisory',
    })
    const withdrawn = { ...weaker, withdrawn: '2026-11-05T10:00:00Z' }
    expect(await send([withdrawn], '', developer.token)).toEqual({
      'GHSA-4': 'only an admin withdraws an advisory',
    })
  })

  it('refuses what is no file in OSV form, and one that is too large', async () => {
    const { importAs, token, repository } = await aPlace()
    const wrong = await importAs(token, ['x'] as unknown as object[])
    expect([wrong.statusCode, wrong.json().errmsg]).toEqual([400, expect.stringContaining('JSON object')])
    const large = await t.app.inject({
      method: 'POST',
      url: `/api/repositories/${repository.path}/advisories/import`,
      headers: { authorization: `Bearer ${token}` },
      payload: Buffer.alloc(16 * 1024 * 1024 + 1, 0x20),
    })
    expect(large.statusCode).toBe(413)
  })

  it('lets other requests run while it decides about thousands of records of one package', async () => {
    const { repository } = await aPlace('1.0.0')
    const records = Array.from({ length: 5000 }, (_, i) => aRecord(`GHSA-${i}`, '1.2'))
    let turns = 0
    let isDone = false
    const turn = () => {
      turns += 1
      if (!isDone) setImmediate(turn)
    }
    // Counts the turns of the event loop only after the advisories were read.
    const pool: typeof t.db = Object.assign(Object.create(t.db), {
      async query(text: string, values: unknown[]) {
        const result = await t.db.query(text, values)
        setImmediate(turn)
        return result
      },
    })
    const wanted = {
      repositoryId: repository.id,
      by: operator,
      baseUrl: t.config.baseUrl,
      mayWithdraw: true,
      isDryRun: true,
    }
    const entries = await importOsv(pool, wanted, Buffer.from(JSON.stringify(records)))
    isDone = true
    expect(entries.filter(({ outcome }) => outcome === 'added')).toHaveLength(500)
    expect(turns).toBeGreaterThan(2)
  })

  it('adds a record once when two processes import it at the same time', async () => {
    const { repository, known } = await aPlace('1.0.0')
    const wanted = {
      repositoryId: repository.id,
      by: operator,
      baseUrl: t.config.baseUrl,
      mayWithdraw: true,
      isDryRun: false,
    }
    const file = () => Buffer.from(JSON.stringify(aRecord('GHSA-5', '1.2')))
    // Both have read the file, and one waits for the lock of the other.
    const { tx, commit } = await openTransaction(t.db)
    await lockPackage(tx, 'acme/lib')
    const imports = [1, 2].map(() => importOsv(t.db, wanted, file()))
    await untilWaiting(t.db, 2, 'for no key update')
    await commit()
    const outcomes = (await Promise.all(imports)).map(([one]) => String(one?.outcome))
    expect(new Set(outcomes)).toEqual(new Set(['added', 'unchanged']))
    expect(await known()).toHaveLength(1)
  })
})

describe('GET …/advisories/osv', () => {
  it('describes each advisory by the schema, with the versions that it affects, also a withdrawn one', async () => {
    const { repository, call, send, exported } = await aPlace('1.0.0', '1.1.0-beta.1', '1.1.0', '2.0.0')
    const draft = {
      title: 'Ours',
      affected_versions: '>=1.0,<1.1',
      cve: 'CVE-2026-3333',
      severity: 'medium',
      link: 'https://example.com/1',
    }
    const { advisory_id } = (await call('POST', '/packages/acme/lib/advisories', draft)).json()
    await call('DELETE', `/packages/acme/lib/advisories/${advisory_id}`)
    await call('POST', '/packages/acme/lib/advisories', { title: 'No range', affected_versions: '!=1.1.0' })
    await send([aRecord('GHSA-6', '2.0', { aliases: ['PKSA-6'] })])
    const records = await exported()
    OsvSchema.parse(records)
    const registry = `http://svc.test/${repository.path}/-/packages`
    expect(records[0]).toEqual({
      schema_version: '1.7.5',
      id: `x_${advisory_id}`,
      modified: expect.any(String),
      published: expect.any(String),
      withdrawn: expect.any(String),
      aliases: ['CVE-2026-3333'],
      summary: 'Ours',
      affected: [
        {
          package: {
            ecosystem: `Packagist:${registry}`,
            name: 'acme/lib',
            purl: `pkg:composer/acme/lib?repository_url=${encodeURIComponent(registry)}`,
          },
          ranges: [{ type: 'ECOSYSTEM', events: [{ introduced: '1.0.0' }, { fixed: '1.1.0' }] }],
          versions: ['1.0.0'],
          database_specific: { affected_versions: '>=1.0,<1.1' },
        },
      ],
      references: [{ type: 'ADVISORY', url: 'https://example.com/1' }],
      database_specific: { severity: 'MODERATE' },
    })
    expect(records[1]).toMatchObject({
      affected: [{ ranges: [], versions: ['2.0.0', '1.1.0-beta.1', '1.0.0'] }],
    })
    expect(records[2]).toMatchObject({ aliases: ['GHSA-6', 'PKSA-6'] })
  })

  it('gives a file that changes nothing where it comes from, and makes the same advisories elsewhere', async () => {
    const { call, send, exported, known } = await aPlace('1.0.0')
    await call('POST', '/packages/acme/lib/advisories', {
      title: 'Ours',
      affected_versions: '!=1.1.0',
      severity: 'low',
    })
    await send([aRecord('GHSA-7', '2.0', { aliases: ['PKSA-7', 'CVE-2026-7777'] })])
    const records = await exported()
    expect(Object.values(await send(records))).toEqual(['unchanged', 'unchanged'])
    const elsewhere = await aPlace('3.0.0')
    expect(Object.values(await elsewhere.send(records))).toEqual(['added', 'added'])
    const texts = (list: Record<string, string>[]) =>
      list.map(({ title, affected_versions, severity }) => [title, affected_versions, severity])
    expect(texts(await elsewhere.known())).toEqual(texts(await known()))
  })
})

describe('svc advisory export and import', () => {
  it('print a file in OSV form, and read it', async () => {
    const { repository } = await aPlace('1.0.0')
    const { path } = repository
    expect((await svc.run('advisory', 'export', path)).stdout).toBe('[]\n')
    const file = join(t.config.dataDir, 'advisories.json')
    await writeFile(file, JSON.stringify([aRecord('GHSA-8', '1.2'), aRecord('GHSA-9', '1.3')]))
    const dry = await svc.run('advisory', 'import', path, file, '--dry-run')
    expect(dry.stdout).toBe('added      GHSA-8  acme/lib\nadded      GHSA-9  acme/lib\n')
    expect(await svc.json('advisory', 'import', path, file)).toMatchObject({
      path,
      dry_run: false,
      items: [{ id: 'GHSA-8', outcome: 'added' }, { outcome: 'added' }],
    })
    const records = JSON.parse((await svc.run('advisory', 'export', path)).stdout)
    expect(OsvSchema.parse(records)).toHaveLength(2)
    expect(await svc.json('advisory', 'export', path)).toEqual({ items: records })
    const empty = await aRepository(t.db)
    expect(await svc.json('advisory', 'export', empty.path)).toEqual({ items: [] })
    const missing = await svc.run('advisory', 'import', path, `${file}.none`)
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('ENOENT')])
  })
})

describe('/<group>/<name>/-/advisories', () => {
  it('shows what a file would do, imports it, and gives the export', async () => {
    const { repository, account, known } = await aPlace('1.0.0')
    const cookie = await signIn(t.app, account)
    const url = `/${repository.path}/-/advisories`
    const open = (below = '') => t.app.inject({ url: url + below, headers: { cookie } })
    const csrf_token = csrfTokenIn(await open())
    const send = (act: string, file: string) => {
      const parts = Object.entries({ csrf_token, act }).map(
        ([name, value]) => `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
      )
      const last = `--b\r\ncontent-disposition: form-data; name="file"; filename="a.json"\r\n\r\n${file}\r\n--b--\r\n`
      return t.app.inject({
        method: 'POST',
        url,
        headers: { cookie, 'content-type': 'multipart/form-data; boundary=b' },
        payload: parts.join('') + last,
      })
    }
    const file = JSON.stringify([aRecord('GHSA-10', '1.2'), { id: 'GHSA-11' }])
    const { body } = await send('preview', file)
    expect(body).toContain('The file has 1 to add, 1 to skip.')
    expect(body).toContain('it needs the time of its last change')
    expect(await known()).toEqual([])
    // The page keeps the file, so it is not chosen again.
    const [, kept = ''] = /name="kept" value="([\w-]+)"/.exec(body) ?? []
    const confirm = (value: string) => post(t.app, url, cookie, { csrf_token, act: 'import', kept: value })
    for (const broken of [
      kept.slice(0, -9),
      'none',
      gzipSync(Buffer.alloc(maxOsvBytes + 1)).toString('base64url'),
    ]) {
      const refused = await confirm(broken)
      expect([refused.statusCode, refused.body]).toEqual([400, expect.stringContaining('Choose a file')])
    }
    expect((await confirm('a'.repeat(1_100_000))).statusCode).toBe(413)
    expect(await known()).toEqual([])
    expect((await confirm(kept)).headers['location']).toBe(url)
    expect(await known()).toHaveLength(1)
    // A file that does not fit into a form is chosen again.
    const noise = Array.from({ length: 8_000 }, () => ({ id: randomBytes(140).toString('base64') }))
    const large = await send('preview', JSON.stringify(noise))
    expect(large.body).toContain('It is large: to import it, choose it again.')
    expect(large.body).not.toContain('name="kept"')
    const wrong = await send('import', 'no')
    expect([wrong.statusCode, wrong.body]).toEqual([400, expect.stringContaining('line 1 is no JSON')])
    expect((await send('import', file)).headers['location']).toBe(url)
    expect(await known()).toHaveLength(1)
    expect(OsvSchema.parse((await open('/osv.json')).json())).toHaveLength(1)
  })
})
