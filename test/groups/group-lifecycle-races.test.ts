import type { PoolClient } from 'pg'
import { describe, expect, it } from 'vitest'
import { transaction } from '../../src/database/database.ts'
import { encodeDocument } from '../../src/documents/encodings.ts'
import { saveDocuments } from '../../src/documents/stored-documents.ts'
import { operator } from '../../src/domain/principal.ts'
import {
  changeGroupName,
  changeRepositoryName,
  deleteGroup,
  deleteRepository,
} from '../../src/groups/group-lifecycle.ts'
import { changePaths } from '../../src/groups/path-locks.ts'
import { rerenderDocuments } from '../../src/packages/documents/rerender.ts'
import { findListing } from '../../src/packages/tables/packages.ts'
import { claimVendorByHand, releaseVendorByHand } from '../../src/upstreams/claims.ts'
import { removeUpstream, setUpstream } from '../../src/upstreams/configure.ts'
import { aGroup, aName, aRepository } from '../support/actors.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { documentTexts, pathOf } from '../support/group-rows.ts'
import { countWaiting, lockRow, lockRows, openTransaction, untilWaiting } from '../support/locks.ts'
import { addPackages } from '../support/package-rows.ts'
import { anUpstream } from '../support/upstream-rows.ts'

const t = useApp()

type Tested = Awaited<ReturnType<typeof aRepository>>
const both = ['the group', 'the repository'] as const

const rename = (what: (typeof both)[number], repository: Tested) =>
  what === 'the group'
    ? changeGroupName(t.db, operator, repository.group, aName('renamed'))
    : changeRepositoryName(t.db, operator, repository.id, aName('renamed'))

/**
 * Blocks others in a transaction, then starts each act when the one before has ended or waits for a lock. Then rolls
 * back, and waits for the acts.
 */
async function behind(
  block: (tx: PoolClient, repository: Tested) => Promise<void>,
  repository: Tested,
  acts: readonly (() => Promise<unknown>)[],
) {
  const started: Promise<unknown>[] = []
  const rollback = new Error('The test rolls back.')
  await expect(
    transaction(t.db, async (tx) => {
      await block(tx, repository)
      let ended = 0
      for (const [i, act] of acts.entries()) {
        started.push(
          act().finally(() => {
            ended += 1
          }),
        )
        await expect.poll(async () => ended + (await countWaiting(t.db))).toBe(i + 1)
      }
      throw rollback
    }),
  ).rejects.toBe(rollback)
  return Promise.all(started)
}

const lockPackages = (tx: PoolClient, { id }: Tested) => lockRows(tx, 'package', { repositoryId: id })
const shareUpstreams = (tx: PoolClient, { id }: Tested) =>
  lockRows(tx, 'upstream', { repositoryId: id }, 'share')

const addUpstream = (repository: Tested) =>
  anUpstream(t.db, repository, { name: 'one', url: 'https://x.example/' })

describe('a rename beside a change of a package', () => {
  it.each(
    both.flatMap((what) => [[what, 'a publication', true] as const, [what, 'a deletion', false] as const]),
  )('of %s and %s leaves no document with the old URLs', async (what, _how, isPublication) => {
    const repository = await aRepository(t.db)
    const { push, call } = await aCaller(t, { repository })
    for (const version of ['1.0.0', '1.1.0']) await push(version)
    await behind(lockPackages, repository, [
      async () => (isPublication ? push('1.2.0') : call('DELETE', '/packages/acme/lib/1.1.0')),
      () => rename(what, repository),
    ])
    await rerenderDocuments(t.db, t.config.baseUrl)
    const texts = await documentTexts(t.db, repository)
    const path = await pathOf(t.db, repository)
    expect(texts).toHaveLength(2)
    expect(texts.some((text) => text.includes(`/${path}/-/packages/dist/`))).toBe(true)
    for (const text of texts) expect(text).not.toContain(`/${repository.path}/`)
  })

  it.each(both)('of %s leaves no packages.json with the old URLs', async (what) => {
    const repository = await aRepository(t.db)
    const { push, authorization } = await aCaller(t, { repository })
    await push('1.0.0')
    const late = await findListing(t.db, repository.id, 1000)
    await rename(what, repository)
    await saveDocuments(t.db, 'root', [
      {
        ownerId: repository.id,
        isDev: false,
        baseUrl: t.config.baseUrl,
        revision: String(late?.revision),
        ...(await encodeDocument(Buffer.from(`{"metadata-url":"/${repository.path}/p2"}`))),
      },
    ])
    const path = await pathOf(t.db, repository)
    const response = await t.app.inject({
      url: `/${path}/-/packages/packages.json`,
      headers: { authorization },
    })
    expect(response.statusCode).toBe(200)
    expect(response.body).toContain(`/${path}/`)
    expect(response.body).not.toContain(`/${repository.path}/`)
  })
})

describe('the first publication of a package', () => {
  const acts = {
    'a rename of the group': (repository: Tested) => rename('the group', repository),
    'a rename of the repository': (repository: Tested) => rename('the repository', repository),
    'a deletion of the group': (repository: Tested) =>
      deleteGroup(t.db, operator, repository.group, { withRepositories: true }),
    'a deletion of the repository': (repository: Tested) => deleteRepository(t.db, operator, repository),
  }
  const blockers = {
    'a document that is stored': shareUpstreams,
    'the same publication': (tx: PoolClient, repository: Tested) => addPackages(tx, repository, ['acme/lib']),
  }

  it.each(
    (Object.keys(acts) as (keyof typeof acts)[]).flatMap((what) =>
      (Object.keys(blockers) as (keyof typeof blockers)[]).flatMap((blocker) =>
        [true, false].map((isLater) => ({ what, blocker, isLater })),
      ),
    ),
  )('and $what both end while they wait for $blocker (publication later: $isLater)', async (about) => {
    const repository = await aRepository(t.db)
    await addUpstream(repository)
    const { push } = await aCaller(t, { repository })
    const publish = async () => (await push('1.0.0')).statusCode
    const act = () => acts[about.what](repository)
    const results = await behind(
      blockers[about.blocker],
      repository,
      about.isLater ? [act, publish] : [publish, act],
    )
    const status = results[about.isLater ? 1 : 0]
    // The old path of a repository works, that of a group does not. A publication may lose to a deletion.
    if (about.what === 'a rename of the repository') expect(status).toBe(201)
    else if (about.what === 'a rename of the group')
      expect(about.isLater ? [201, 404] : [201]).toContain(status)
    else expect([201, 404, 409, 503]).toContain(status)
  })
})

describe('a change of an upstream or a claim', () => {
  const by = operator
  const acts = {
    'a changed rule': ({ id: repositoryId }: Tested) =>
      setUpstream(t.db, { repositoryId, by }, 'one', { deny: ['acme/*'] }),
    'a removal': ({ id: repositoryId }: Tested) => removeUpstream(t.db, { repositoryId, by }, 'one'),
    'a claim': ({ group }: Tested) =>
      claimVendorByHand(t.db, by, group, { vendor: 'acme', exceptions: [], force: false }),
    'the end of a claim': ({ group }: Tested) => releaseVendorByHand(t.db, by, group, 'other'),
  }

  it.each(Object.keys(acts) as (keyof typeof acts)[])('%s waits for a rename', async (what) => {
    const repository = await aRepository(t.db)
    await addUpstream(repository)
    await claimVendorByHand(t.db, by, repository.group, { vendor: 'other', exceptions: [], force: false })
    let hasEnded = false
    let changed: Promise<unknown> = Promise.resolve()
    await transaction(t.db, async (tx) => {
      await changePaths(tx, repository.group.id)
      changed = acts[what](repository).finally(() => {
        hasEnded = true
      })
      await expect.poll(async () => hasEnded || (await countWaiting(t.db)) === 1).toBe(true)
      expect(hasEnded).toBe(false)
    })
    await changed
  })
})

describe('renames and deletions of a group and of its repository', () => {
  it('that race with each other and with a claim all end', async () => {
    for (let round = 0; round < 5; round += 1) {
      const repository = await aRepository(t.db)
      await addUpstream(repository)
      await behind(shareUpstreams, repository, [
        () =>
          claimVendorByHand(t.db, operator, repository.group, {
            vendor: 'acme',
            exceptions: [],
            force: false,
          }),
        () => rename('the repository', repository),
        () => rename('the group', repository),
        () => deleteRepository(t.db, operator, repository),
      ])
    }
  })

  it('that come after a deletion say that the group is gone, and write no event', async () => {
    const group = await aGroup(t.db)
    const { tx, commit } = await openTransaction(t.db)
    await lockRow(tx, 'repository_group', group)
    const deletion = deleteGroup(t.db, operator, group)
    await untilWaiting(t.db)
    const late = Promise.allSettled([
      deleteGroup(t.db, operator, group),
      changeGroupName(t.db, operator, group, aName('renamed')),
    ])
    await untilWaiting(t.db, 3)
    await commit()
    expect((await deletion).isDeleted).toBe(true)
    expect(await late).toMatchObject([{ reason: { errcode: 5 } }, { reason: { errcode: 5 } }])
    const events = await eventsOf(t.db, { groupId: group.id }, ['action'])
    expect(events.map(({ action }) => action)).toEqual(['delete-group'])
  })
})
