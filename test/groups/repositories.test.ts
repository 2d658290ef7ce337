import { describe, expect, it } from 'vitest'
import { setDisabled } from '../../src/accounts/accounts.ts'
import { type Queryable, transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import {
  accountReader,
  listAccessibleGroups,
  listAccessibleRepositories,
} from '../../src/groups/accessible-repositories.ts'
import { findGroup, findVisibleGroup, insertGroup } from '../../src/groups/groups.ts'
import {
  listMembers,
  removeGroupMember,
  removeRepositoryMember,
  setGroupMember,
  setRepositoryMember,
} from '../../src/groups/members.ts'
import {
  findRepositoryByPath,
  findVisibleRepository,
  insertRepository,
  purgeRepository,
  registryUrl,
} from '../../src/groups/repositories.ts'
import { aName, anAccount, aRepository } from '../support/actors.ts'
import { refuseLargeDeletions } from '../support/broken-schema.ts'
import { useDatabase } from '../support/database.ts'
import { fillGroup, membersOf, requireSecondFactor } from '../support/group-rows.ts'
import { lockRows, untilWaiting } from '../support/locks.ts'
import { addPackages } from '../support/package-rows.ts'
import { countRows } from '../support/rows.ts'
import { countReads, flushStatistics, readsByTable, vacuum } from '../support/statistics.ts'

describe('groups, repositories and their members (CONTRACT 1.2)', () => {
  const t = useDatabase()

  const anAccountId = async (username: string) => (await anAccount(t.db, { username })).id

  it('makes the owner of a new group its first admin', async () => {
    const owner = await anAccountId('ada')
    const group = await insertGroup(t.db, 'ada-group', owner)
    expect(await findGroup(t.db, 'ada-group')).toEqual(group)
    expect(await findGroup(t.db, 'nobody')).toBeNull()
    const { id } = await insertRepository(t.db, { groupId: group.id, name: 'php', visibility: 'private' })
    expect(await listMembers(t.db, id)).toEqual([
      { username: 'ada', displayName: '', role: 'admin', groupRole: 'admin', repositoryRole: null },
    ])
    await expect(insertGroup(t.db, 'ada-group', owner)).rejects.toMatchObject({
      constraint: 'group_name_is_taken',
    })
  })

  it('finds a repository by its path, and names its registry', async () => {
    const group = await insertGroup(t.db, 'bob', await anAccountId('bob'))
    const made = await insertRepository(t.db, {
      groupId: group.id,
      name: 'php',
      visibility: 'public',
      description: 'All of it.',
    })
    expect(made).toEqual({
      id: expect.any(String),
      path: 'bob/php',
      visibility: 'public',
      description: 'All of it.',
      release: 'direct',
      twoPeople: false,
    })
    expect(await findRepositoryByPath(t.db, 'bob/php')).toEqual(made)
    for (const path of ['bob/ruby', 'php', '', 'bob', 'bob/php/', '/bob/php'])
      expect(await findRepositoryByPath(t.db, path)).toBeNull()
    expect(registryUrl('https://svc.test', made.path)).toBe('https://svc.test/bob/php/-/packages/')
  })

  it('lets the stronger of the two roles count', async () => {
    const owner = await anAccountId('cleo')
    const member = await anAccountId('dan')
    const group = await insertGroup(t.db, 'cleo', owner)
    const php = await insertRepository(t.db, { groupId: group.id, name: 'php', visibility: 'private' })
    await insertRepository(t.db, { groupId: group.id, name: 'zoo', visibility: 'public' })
    await setRepositoryMember(t.db, php.id, member, 'guest')
    await setRepositoryMember(t.db, php.id, member, 'admin')
    expect(
      await listAccessibleRepositories(t.db, accountReader(member), { after: null, limit: 10 }),
    ).toMatchObject([{ path: 'cleo/php', role: 'admin' }])

    await setGroupMember(t.db, group.id, member, 'developer')
    expect(await listAccessibleGroups(t.db, accountReader(member), { after: null, limit: 10 })).toMatchObject(
      [{ name: group.name, role: 'developer' }],
    )
    expect(
      await listAccessibleRepositories(t.db, accountReader(member), { after: null, limit: 10 }),
    ).toMatchObject([
      { path: 'cleo/php', role: 'admin' },
      { path: 'cleo/zoo', role: 'developer' },
    ])
    expect(await listMembers(t.db, php.id)).toMatchObject([
      { username: 'cleo', role: 'admin' },
      { username: 'dan', role: 'admin', groupRole: 'developer', repositoryRole: 'admin' },
    ])

    expect(await removeRepositoryMember(t.db, php.id, member)).toBe(true)
    expect(await removeRepositoryMember(t.db, php.id, member)).toBe(false)
    expect(await removeGroupMember(t.db, group.id, member)).toBe('changed')
    expect(await removeGroupMember(t.db, group.id, member)).toBe('unchanged')
    expect(await listAccessibleRepositories(t.db, accountReader(member), { after: null, limit: 10 })).toEqual(
      [],
    )
  })
})

describe('the last admin of a group', () => {
  const t = useDatabase()
  const aGroupOfTwo = async () => {
    const [ann, bob] = [await anAccount(t.db), await anAccount(t.db)]
    const group = await insertGroup(t.db, aName('two'), ann.id)
    await setGroupMember(t.db, group.id, bob.id, 'admin')
    return { group, ann, bob }
  }
  const adminsOf = async (group: { id: string }) =>
    (await membersOf(t.db, group)).filter(({ role }) => role === 'admin').map(({ accountId }) => accountId)

  it('is neither removed nor demoted, unless forced', async () => {
    const { group, ann, bob } = await aGroupOfTwo()
    expect(await setGroupMember(t.db, group.id, bob.id, 'guest')).toBe('changed')
    expect(await removeGroupMember(t.db, group.id, ann.id)).toBe('last-admin')
    expect(await setGroupMember(t.db, group.id, ann.id, 'developer')).toBe('last-admin')
    expect(await setGroupMember(t.db, group.id, ann.id, 'admin')).toBe('changed')
    expect(await adminsOf(group)).toEqual([ann.id])
    expect(await removeGroupMember(t.db, group.id, bob.id)).toBe('changed')
    expect(await setGroupMember(t.db, group.id, ann.id, 'developer', { force: true })).toBe('changed')
    expect(await removeGroupMember(t.db, group.id, ann.id, { force: true })).toBe('changed')
  })

  it('is counted without disabled accounts', async () => {
    const { group, ann, bob } = await aGroupOfTwo()
    await setDisabled(t.db, operator, bob.id, true)
    expect(await removeGroupMember(t.db, group.id, ann.id)).toBe('last-admin')
    expect(await removeGroupMember(t.db, group.id, bob.id)).toBe('changed')
  })

  it('stays when all admins remove or demote each other at the same time', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, async (_, index) => {
        const { group, ann, bob } = await aGroupOfTwo()
        const leave = ({ id }: { id: string }, isRemoved: boolean) =>
          isRemoved ? removeGroupMember(t.db, group.id, id) : setGroupMember(t.db, group.id, id, 'guest')
        const both = await Promise.all([leave(ann, index % 2 === 0), leave(bob, index % 3 === 0)])
        return [both.toSorted(), (await adminsOf(group)).length]
      }),
    )
    for (const outcome of outcomes) expect(outcome).toEqual([['changed', 'last-admin'], 1])
  })

  it('stays without a deadlock when both have changed their own row and look for another admin', async () => {
    const first = await anAccount(t.db)
    const group = await insertGroup(t.db, aName('three'), first.id)
    const [ann, bob] = [await anAccount(t.db), await anAccount(t.db)]
    for (const { id } of [ann, bob]) await setGroupMember(t.db, group.id, id, 'admin')
    // This admin does not count, so both look further after they have waited for the row.
    await setDisabled(t.db, operator, first.id, true)
    const changes = await transaction(t.db, async (tx) => {
      await lockRows(tx, 'group_member', { accountId: first.id })
      const started = [ann, bob].map(({ id }) => setGroupMember(t.db, group.id, id, 'guest'))
      await untilWaiting(t.db, 2)
      return started
    })
    expect((await Promise.all(changes)).toSorted()).toEqual(['changed', 'last-admin'])
  })

  it('stays when another account is promoted, demoted and removed at the same time', async () => {
    const { group, ann, bob } = await aGroupOfTwo()
    for (let round = 0; round < 20; round += 1) {
      await Promise.all([
        removeGroupMember(t.db, group.id, ann.id),
        setGroupMember(t.db, group.id, bob.id, 'guest'),
        setGroupMember(t.db, group.id, bob.id, 'admin'),
        setGroupMember(t.db, group.id, ann.id, 'admin'),
        removeGroupMember(t.db, group.id, bob.id),
      ])
      expect(await adminsOf(group)).not.toEqual([])
    }
  })
})

describe('deleting a repository', () => {
  const t = useDatabase()

  it('removes any number of packages, at most 2,000 in one statement', async () => {
    const { id } = await aRepository(t.db)
    const names = Array.from({ length: 4500 }, (_, i) => `acme/lib${i}`)
    await addPackages(t.db, { id }, names)
    await refuseLargeDeletions(t.db, 'package', 2000)
    expect(await transaction(t.db, (tx) => purgeRepository(tx, id))).toBe(true)
    expect(await countRows(t.db, 'package', { repositoryId: id })).toBe(0)
    expect(await transaction(t.db, (tx) => purgeRepository(tx, id))).toBe(false)
  })
})

describe('the repositories of a member of large groups', () => {
  const t = useDatabase()

  it('are listed without reading all of them', async () => {
    const member = await anAccount(t.db)
    for (const name of ['large-a', 'large-b']) {
      const group = await insertGroup(t.db, name, member.id)
      await fillGroup(t.db, group, 900)
    }
    await vacuum(t.db)
    const client = await t.db.connect()
    const count = async () => {
      await flushStatistics(client)
      return countReads(t.db)
    }
    const before = await count()
    const part = { after: 'large-a/repo-899', limit: 10 }
    const listed = await listAccessibleRepositories(client, accountReader(member.id), part)
    const reads = (await count()) - before
    client.release()
    const shown = ['large-a/repo-900', ...Array.from({ length: 9 }, (_, i) => `large-b/repo-00${i + 1}`)]
    expect(listed.map(({ path, role }) => [path, role])).toEqual(shown.map((path) => [path, 'admin']))
    expect(reads).toBeLessThan(500)
  })
})

describe('what a visitor may not see', () => {
  const t = useDatabase()

  /** Returns how often a look-up reads each table. */
  async function readsOf(lookUp: (tx: Queryable) => Promise<unknown>): Promise<Record<string, number>> {
    return await transaction(t.db, async (tx) => {
      // PostgreSQL adds statements of earlier transactions to these counters for a while.
      const before = await readsByTable(tx)
      expect(await lookUp(tx)).toBeNull()
      const grown = [...(await readsByTable(tx))].map(([name, reads]) => [
        name,
        reads - (before.get(name) ?? 0),
      ])
      return Object.fromEntries(grown.filter(([, reads]) => reads !== 0)) as Record<string, number>
    })
  }

  it.each(['a stranger', 'nobody'])(
    'is looked up with the same reads as what does not exist, by %s',
    async (who) => {
      const { id: ownerId } = await anAccount(t.db)
      const group = await insertGroup(t.db, aName('group'), ownerId)
      await insertRepository(t.db, {
        groupId: group.id,
        name: 'secret',
        visibility: 'private',
        description: '',
      })
      const reader = who === 'nobody' ? null : (await anAccount(t.db)).id
      const repository = (path: { group: string; name: string }) =>
        readsOf((tx) => findVisibleRepository(tx, path, reader))
      const hidden = await repository({ group: group.name, name: 'secret' })
      expect(Object.keys(hidden).length).toBeGreaterThan(1)
      expect(await repository({ group: group.name, name: 'missing' })).toEqual(hidden)
      expect(await repository({ group: 'missing', name: 'secret' })).toEqual(hidden)
      await requireSecondFactor(t.db, group)
      expect(await repository({ group: group.name, name: 'secret' })).toEqual(hidden)
      const hiddenGroup = await readsOf((tx) => findVisibleGroup(tx, group.name, reader))
      expect(Object.keys(hiddenGroup).length).toBeGreaterThan(1)
      expect(await readsOf((tx) => findVisibleGroup(tx, 'missing', reader))).toEqual(hiddenGroup)
    },
  )
})
