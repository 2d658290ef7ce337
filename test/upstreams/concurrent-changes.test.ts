import type { ServerResponse } from 'node:http'
import type pg from 'pg'
import { describe, expect, it } from 'vitest'
import { type Queryable, transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { changeGroupName, changeRepositoryName } from '../../src/groups/group-lifecycle.ts'
import { claimVendorByHand } from '../../src/upstreams/claims.ts'
import { saveSummaryFlags } from '../../src/upstreams/tables/mirrored-documents.ts'
import { aName, aRepository } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { countWaiting, limitLockWaits, lockRow, openTransaction } from '../support/locks.ts'
import {
  aMirroredArchive,
  aMirroredDocument,
  lockMirroredDocuments,
  lockMirroredPackage,
  mirroredDocuments,
  mirroredPackages,
} from '../support/mirrored-rows.ts'
import { expand } from '../support/registry-actors.ts'
import { followUpstreams, upstreamsHere, useUpstream } from '../support/upstream.ts'
import {
  ageDocuments,
  lockUpstream,
  markRemoved,
  upstreamDocuments,
  upstreamRows,
} from '../support/upstream-rows.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream({ filter: { metadata: true, 'summary-url': '/filter.json' } })
const other = useUpstream()

async function aMirror(settings: object = {}) {
  const repository = await aRepository(t.db)
  const caller = await aCaller(t, { repository })
  const add = async (about: object) =>
    expect((await caller.call('POST', '/upstreams', about)).statusCode).toBe(201)
  await add({ url: upstream.url, name: 'first', ...settings })
  const versions = async (name: string) => {
    const response = await caller.ask(`p2/${name}.json`)
    if (response.statusCode !== 200) return response.statusCode
    return expand(response.body, name).map(({ version }) => version)
  }
  return { ...caller, group: repository.group, add, versions }
}

/** Makes the upstream hold its response for a document until `release`. `isHeld` resolves when the request is there. */
function hold(path: string) {
  const file = upstream.read(path)
  const held = new Promise<ServerResponse>((resolve) => {
    upstream.fail(path, (_, response) => resolve(response))
  })
  return {
    isHeld: held.then(() => {}),
    release: async () => {
      upstream.fail(path, null)
      const response = await held
      response.end(file)
    },
  }
}

describe('an upstream that is removed while svc reads a document of it', () => {
  it('does not take the name that it never served', async () => {
    upstream.offer('race/removed', ['1.0.0'])
    other.offer('race/removed', ['2.0.0'])
    const { call, add, versions } = await aMirror()
    const { isHeld, release } = hold('/p2/race/removed.json')
    const asked = versions('race/removed')
    await isHeld
    expect((await call('DELETE', '/upstreams/first')).statusCode).toBe(204)
    await release()
    expect(await asked).toBe(404)
    await add({ url: other.url, name: 'second' })
    expect(await versions('race/removed')).toEqual(['2.0.0'])
  })

  it('is no error, not even when the whole repository is deleted', async () => {
    upstream.offer('race/deleted', ['1.0.0'])
    const { call, versions } = await aMirror()
    const { isHeld, release } = hold('/p2/race/deleted.json')
    const asked = versions('race/deleted')
    await isHeld
    expect((await call('DELETE')).statusCode).toBe(204)
    await release()
    expect(await asked).toBe(404)
  })
})

describe('a vendor that is claimed while svc reads a document of an upstream', () => {
  it('is not served, and no other upstream is asked', async () => {
    for (const one of [upstream, other]) one.offer('race/claimed', ['1.0.0'])
    const { group, add, versions } = await aMirror()
    await add({ url: other.url, name: 'second' })
    const { isHeld, release } = hold('/p2/race/claimed.json')
    const asked = versions('race/claimed')
    await isHeld
    await claimVendorByHand(t.db, operator, group, { vendor: 'race', exceptions: [], force: true })
    await release()
    expect(await asked).toBe(404)
    expect(other.requests).not.toContain('GET /p2/race/claimed.json')
  })
})

describe('a rename while svc stores a new document of an upstream', () => {
  it.each(['the group', 'the repository'] as const)(
    'of %s leaves no document with the old URLs',
    async (what) => {
      upstream.offer('race/renamed', ['1.0.0'])
      upstream.offer('race/renamed', ['dev-main'], { isDev: true })
      const { repository, group, versions } = await aMirror()
      await versions('race/renamed')
      const waiting = () => countWaiting(t.db)
      let asked: Promise<unknown> = Promise.resolve()
      let rename: Promise<unknown> = Promise.resolve()
      const rollback = new Error('The test rolls back.')
      await expect(
        transaction(t.db, async (tx) => {
          // svc waits for this document after it has read the path of the repository.
          await aMirroredDocument(tx, repository)
          asked = versions('race/renamed~dev')
          await expect.poll(waiting).toBe(1)
          let isRenamed = false
          rename = (
            what === 'the group'
              ? changeGroupName(t.db, operator, group, aName('renamed'))
              : changeRepositoryName(t.db, operator, repository.id, aName('renamed'))
          ).then(() => {
            isRenamed = true
          })
          await expect.poll(async () => isRenamed || (await waiting()) === 2).toBe(true)
          throw rollback
        }),
      ).rejects.toBe(rollback)
      await Promise.all([asked, rename])
      const documents = await mirroredDocuments(t.db, repository)
      expect(documents.map(({ baseUrl }) => baseUrl)).toEqual(['', ''])
    },
  )
})

describe('an upstream that is removed', () => {
  it('gives its names to exactly one of several upstreams with its URL that are added at once', async () => {
    const names = Array.from({ length: 20 }, (_, i) => `race/again${i}`)
    for (const name of names) upstream.offer(name, ['1.0.0'])
    const { call, versions, repository } = await aMirror()
    await Promise.all(names.map((name) => versions(name)))
    expect((await call('DELETE', '/upstreams/first')).statusCode).toBe(204)
    const added = await Promise.all([
      call('DELETE', '/upstreams/first?release=true'),
      ...['a', 'b', 'c', 'd'].map((name) => call('POST', '/upstreams', { url: upstream.url, name })),
    ])
    expect(added.slice(1).map(({ statusCode }) => statusCode)).toEqual(Array(4).fill(201))
    const packages = await mirroredPackages(t.db, repository)
    const owners = new Set(packages.map(({ upstreamId }) => upstreamId))
    const owning = (await upstreamRows(t.db, repository)).filter(({ id }) => owners.has(id))
    // If the release comes before all of them, no upstream has the names yet.
    expect(owning.filter(({ isRemoved }) => isRemoved)).toEqual([])
    expect(owners.size).toBe(1)
    expect(await Promise.all(names.map((name) => versions(name)))).toEqual(names.map(() => ['1.0.0']))
  })

  it('gives its names to an upstream with its URL that is added before the removal is committed', async () => {
    upstream.offer('race/removal', ['1.0.0'])
    const { call, versions, repository, add } = await aMirror()
    await versions('race/removal')
    let added: ReturnType<typeof add> | undefined
    await transaction(t.db, async (tx) => {
      await markRemoved(tx, { repository })
      added = add({ url: upstream.url, name: 'second' })
      await Promise.race([added, expect.poll(() => countWaiting(t.db)).toBe(1)])
    })
    await added
    expect(await versions('race/removal')).toEqual(['1.0.0'])
    expect((await call('GET', '/upstreams')).json()).toMatchObject([{ name: 'second' }])
  })
})

/**
 * Lets svc store a document, but stops it: another transaction holds a lock, and `store` waits for it. Then runs
 * `change`, and lets svc continue.
 */
async function whileStoring(
  lock: (tx: pg.PoolClient) => Promise<unknown>,
  store: () => Promise<unknown>,
  change: () => Promise<unknown>,
): Promise<void> {
  const waiting = () => countWaiting(t.db)
  const { tx, rollback } = await openTransaction(t.db)
  let both: Promise<unknown>[] = []
  try {
    await lock(tx)
    both = [store()]
    await expect.poll(waiting).toBeGreaterThanOrEqual(1)
    const changed = change()
    both.push(changed)
    // The change either waits for svc, or has ended.
    const waits = async () => expect.poll(waiting).toBeGreaterThanOrEqual(2)
    await Promise.race([changed, waits().catch(() => {})])
  } finally {
    await rollback()
  }
  await Promise.all(both)
}

/** Waits until the latest content of a document is stored. */
async function untilStored(name: string) {
  const isStored = async () =>
    (await upstreamDocuments(t.db, name)).flatMap(({ isDev, isRecent }) => (isDev ? [] : [isRecent]))
  await expect.poll(isStored).toEqual([true])
}

/** Lets the next request for a document ask its upstream again. */
const age = () => ageDocuments(t.db)

/** Stops svc after it has read the rules: the row of an archive is held. */
const holdArchive =
  ({ name, archive }: { name: string; archive: string }) =>
  (tx: Queryable) =>
    aMirroredArchive(tx, name, { version: archive, reference: referenceOf(name, archive) })

const referenceOf = (name: string, version: string) =>
  Buffer.from(`${name} ${version}`).toString('hex').padEnd(40, '0').slice(-40)

describe('a rule that changes while svc stores a document', () => {
  it('applies to the first document of a package', async () => {
    upstream.offer('race/first', ['1.1.0', '1.0.0'])
    const { call, versions } = await aMirror()
    await call('POST', '/mirrored-packages/approve', { packages: ['race/first'] })
    await whileStoring(
      holdArchive({ name: 'race/first', archive: '1.1.0' }),
      () => versions('race/first'),
      () => call('PATCH', '/upstreams/first', { deny: ['race/first:1.1.0'] }),
    )
    expect(await versions('race/first')).toEqual(['1.0.0'])
  })

  it('applies to a later document of a package', async () => {
    upstream.offer('race/later', ['1.0.0'])
    const { call, versions } = await aMirror()
    await versions('race/later')
    upstream.offer('race/later', ['1.1.0', '1.0.0'])
    await age()
    await whileStoring(
      holdArchive({ name: 'race/later', archive: '1.1.0' }),
      () => versions('race/later'),
      () => call('PATCH', '/upstreams/first', { deny: ['race/later:1.1.0'] }),
    )
    await untilStored('race/later')
    expect(await versions('race/later')).toEqual(['1.0.0'])
  })
})

describe('a name that becomes our own while svc stores a document that replaces it', () => {
  it.each(['publication', 'claim'])('is not replaced by the document: %s', async (kind) => {
    const name = `race/replaces-${kind}`
    const own = `own-${kind}/lib`
    upstream.offer(name, ['1.0.0'])
    const { ask, push, group, versions } = await aMirror()
    await versions(name)
    upstream.offer(name, [{ version: '1.1.0', replace: { [own]: '*', 'race/other': '*' } }])
    await age()
    await whileStoring(
      (tx) => lockMirroredDocuments(tx, name),
      () => versions(name),
      async () => {
        if (kind === 'publication') expect((await push('1.0.0', { name: own })).statusCode).toBe(201)
        else
          await claimVendorByHand(t.db, operator, group, {
            vendor: `own-${kind}`,
            exceptions: [],
            force: false,
          })
      },
    )
    await untilStored(name)
    const entries = expand((await ask(`p2/${name}.json`)).body, name)
    expect(entries).toMatchObject([{ version: '1.1.0' }])
    expect(entries[0]?.['replace']).toEqual({ 'race/other': '*' })
  })
})

/** Reads the summaries of all upstreams. */
async function readSummary() {
  await followUpstreams(t)
}

describe('a first request for a package that a new malware summary flags', () => {
  it('hides the version when its document is stored first', async () => {
    upstream.offer('race/bound', ['1.1.0', '1.0.0'])
    const { call, ask, versions } = await aMirror()
    await call('POST', '/mirrored-packages/approve', { packages: ['race/bound'] })
    upstream.put('/filter.json', { filter: { malware: { 'race/bound': '1.1.0' } } })
    await whileStoring(
      holdArchive({ name: 'race/bound', archive: '1.1.0' }),
      () => versions('race/bound'),
      readSummary,
    )
    expect(await versions('race/bound')).toEqual(['1.0.0'])
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: { 'race/bound': '1.1.0' } } })
  })

  it('hides the version when the summary is stored first', async () => {
    upstream.offer('race/known', ['1.0.0'])
    upstream.offer('race/late', ['1.1.0', '1.0.0'])
    const { ask, versions } = await aMirror()
    await versions('race/known')
    const flags = { 'race/known': '1.0.0', 'race/late': '1.1.0' }
    upstream.put('/filter.json', { filter: { malware: flags } })
    await whileStoring(
      (tx) => lockMirroredPackage(tx, 'race/known'),
      readSummary,
      () => versions('race/late'),
    )
    expect(await versions('race/late')).toEqual(['1.0.0'])
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: flags } })
  })
})

describe('a malware summary that has not changed', () => {
  it('waits for no request that binds a name, and a changed one waits', async () => {
    const flags = [['race/unchanged', '1.1.0']] as const
    const { repository } = await aMirror()
    const upstreamId = (await upstreamRows(t.db, repository))[0]?.id ?? ''
    const save = (given: readonly (readonly [string, string])[]) =>
      transaction(t.db, async (tx) => {
        await limitLockWaits(tx, 200)
        await saveSummaryFlags(tx, upstreamId, Buffer.from(JSON.stringify(given)))
      })
    await save(flags)
    await transaction(t.db, async (tx) => {
      await lockUpstream(tx, upstreamId)
      await save(flags)
      await expect(save([['race/unchanged', '1.2.0']])).rejects.toMatchObject({ code: '55P03' })
      await expect(save([])).rejects.toMatchObject({ code: '55P03' })
    })
  })
})

describe('an upstream that releases its names while svc stores its malware summary', () => {
  it('flags no version any more', async () => {
    upstream.offer('race/flagged', ['1.1.0', '1.0.0'])
    upstream.put('/filter.json', { filter: { malware: { 'race/flagged': '1.1.0' } } })
    const { call, ask, repository, versions } = await aMirror()
    await versions('race/flagged')
    await readSummary()
    expect(await versions('race/flagged')).toEqual(['1.0.0'])

    upstream.put('/filter.json', { filter: { malware: { 'race/flagged': '1.0.0' } } })
    const { isHeld, release } = hold('/filter.json')
    const isRead = readSummary()
    await isHeld
    await whileStoring(
      (tx) => lockRow(tx, 'repository', repository),
      () => call('DELETE', '/upstreams/first?release=true'),
      () => Promise.all([release(), isRead]),
    )
    expect((await ask('filter.json')).json()).toEqual({ filter: { malware: {} } })
    expect(await mirroredPackages(t.db, 'race/flagged')).toMatchObject([{ flaggedVersions: null }])
  })
})
