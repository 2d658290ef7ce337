import { describe, expect, it } from 'vitest'
import { findGroup, insertGroup, listGroupsOf } from '../../src/repositories/groups.ts'
import {
  listMembers,
  removeGroupMember,
  removeRepositoryMember,
  setGroupMember,
  setRepositoryMember,
} from '../../src/repositories/members.ts'
import {
  findRepositoryByPath,
  insertRepository,
  listRepositoriesOf,
  registryUrl,
} from '../../src/repositories/repositories.ts'
import { useDatabase } from '../support/database.ts'

describe('groups, repositories and their members (DESIGN §1)', () => {
  const t = useDatabase()

  async function anAccountId(username: string): Promise<string> {
    const { rows } = await t.db.query(
      `insert into account (username, password_hash) values ($1, 'none') returning id`,
      [username],
    )
    return rows[0].id
  }

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
    expect(await listRepositoriesOf(t.db, member)).toMatchObject([{ path: 'cleo/php', role: 'admin' }])

    await setGroupMember(t.db, group.id, member, 'developer')
    expect(await listGroupsOf(t.db, member)).toEqual([group])
    expect(await listRepositoriesOf(t.db, member)).toMatchObject([
      { path: 'cleo/php', role: 'admin' },
      { path: 'cleo/zoo', role: 'developer' },
    ])
    expect(await listMembers(t.db, php.id)).toMatchObject([
      { username: 'cleo', role: 'admin' },
      { username: 'dan', role: 'admin', groupRole: 'developer', repositoryRole: 'admin' },
    ])

    expect(await removeRepositoryMember(t.db, php.id, member)).toBe(true)
    expect(await removeRepositoryMember(t.db, php.id, member)).toBe(false)
    expect(await removeGroupMember(t.db, group.id, member)).toBe(true)
    expect(await removeGroupMember(t.db, group.id, member)).toBe(false)
    expect(await listRepositoriesOf(t.db, member)).toEqual([])
  })
})
