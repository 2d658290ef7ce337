import { beforeAll, describe, expect, it } from 'vitest'
import { listRepositoryEvents } from '../../src/events/registry-events.ts'
import { findRepositoryByPath } from '../../src/groups/repositories.ts'
import { storedAccount } from '../support/account-rows.ts'
import { anAccount, roleIn } from '../support/actors.ts'
import { useCommands } from '../support/commands.ts'
import { eventsOf } from '../support/event-rows.ts'

describe('svc group, repository and member', () => {
  const svc = useCommands()
  beforeAll(async () => {
    await anAccount(svc.db, { username: 'ann' })
    await anAccount(svc.db, { username: 'bob' })
  })
  const roleOf = async (username: string, name: string) => {
    const account = await storedAccount(svc.db, { username })
    const repository = await findRepositoryByPath(svc.db, `acme/${name}`)
    return roleIn(svc.db, { id: account?.id ?? '' }, { id: repository?.id ?? '' })
  }

  it('make a group whose owner is its admin, and repositories in it', async () => {
    expect(await svc.json('group', 'create', 'acme', '--owner', 'ann')).toEqual({
      group: 'acme',
      owner: 'ann',
    })
    expect(await svc.json('repository', 'create', 'acme/php')).toEqual({
      path: 'acme/php',
      visibility: 'private',
      registry_url: 'https://svc.example.com/acme/php/-/packages/',
    })
    const words = ['acme/open', '--visibility', 'public', '--description', 'For all']
    expect(await svc.json('repository', 'create', ...words)).toMatchObject({ visibility: 'public' })
    expect(await roleOf('ann', 'php')).toBe('admin')
    expect(await roleOf('bob', 'php')).toBeNull()
  })

  it('rename a repository, whose old name stays reserved', async () => {
    await svc.json('group', 'create', 'moved', '--owner', 'ann')
    await svc.json('repository', 'create', 'moved/old')
    expect(await svc.json('repository', 'rename', 'moved/old', 'new')).toEqual({ path: 'moved/new' })
    expect(await svc.fail('repository', 'create', 'moved/old')).toContain(
      'Another repository of the group had this name',
    )
  })

  it('give, change and take away roles', async () => {
    const set = (...words: string[]) => svc.json('member', 'set', ...words)
    expect(await set('acme', 'bob', 'guest')).toEqual({ path: 'acme', username: 'bob', role: 'guest' })
    await set('acme/php', 'bob', 'developer')
    expect([await roleOf('bob', 'php'), await roleOf('bob', 'open')]).toEqual(['developer', 'guest'])
    await set('acme/php', 'bob', 'none')
    expect(await roleOf('bob', 'php')).toBe('guest')
    await set('acme', 'bob', 'none')
    expect(await roleOf('bob', 'php')).toBeNull()
  })

  it('write an event for each change of a role, and none for a change that was refused', async () => {
    await svc.json('group', 'create', 'noted', '--owner', 'ann')
    await svc.json('repository', 'create', 'noted/php')
    await svc.json('member', 'set', 'noted', 'bob', 'guest')
    await svc.json('member', 'set', 'noted/php', 'bob', 'developer')
    await svc.json('member', 'set', 'noted/php', 'bob', 'none')
    await svc.json('member', 'set', 'noted', 'bob', 'none')
    await svc.json('member', 'set', 'noted', 'bob', 'none')
    await svc.fail('member', 'set', 'noted', 'ann', 'none')
    const repository = await findRepositoryByPath(svc.db, 'noted/php')
    const events = await listRepositoryEvents(svc.db, repository?.id ?? '', { after: null, limit: 10 })
    expect(events.map(({ action, details }) => [action, details])).toEqual([
      ['remove-group-member', { username: 'bob', from: { role: 'guest' } }],
      ['remove-member', { username: 'bob', from: { role: 'developer' } }],
      ['set-member', { username: 'bob', role: 'developer' }],
      ['set-group-member', { username: 'bob', role: 'guest' }],
      ['create-repository', { path: 'noted/php', visibility: 'private' }],
      ['create-group', { name: 'noted', username: 'ann', role: 'admin' }],
    ])
    const [, second] = events
    expect(
      await listRepositoryEvents(svc.db, repository?.id ?? '', { after: second?.id ?? '', limit: 1 }),
    ).toEqual([events[2]])
  })

  it('list in parts, change and delete, each with an event', async () => {
    await svc.json('group', 'create', 'many', '--owner', 'ann')
    for (const name of ['c', 'a', 'b-1']) await svc.json('repository', 'create', `many/${name}`)
    await svc.json('member', 'set', 'many', 'bob', 'guest')
    await svc.json('member', 'set', 'many/a', 'bob', 'developer')
    type Listed = { items: Record<string, unknown>[]; next: string | null }
    const list = (...words: string[]) => svc.json<Listed>(...words)

    const first = await list('repository', 'list', 'many', '--limit', '2')
    expect([first.items.map(({ path }) => path), first.next]).toEqual([['many/a', 'many/b-1'], 'many/b-1'])
    const second = await list('repository', 'list', 'many', '--limit', '2', '--after', 'many/b-1')
    expect(second).toEqual({
      items: [
        {
          path: 'many/c',
          visibility: 'private',
          description: '',
          packages: 0,
          members: 0,
          registry_url: 'https://svc.example.com/many/c/-/packages/',
          created_at: expect.any(String),
        },
      ],
      next: null,
    })
    expect((await list('group', 'list', '--limit', '1000')).items).toContainEqual({
      group: 'many',
      repositories: 3,
      admins: ['ann'],
      requires_second_factor: false,
      created_at: expect.any(String),
    })
    expect((await list('member', 'list', 'many')).items).toEqual([
      { username: 'ann', name: '', role: 'admin' },
      { username: 'bob', name: '', role: 'guest' },
    ])
    expect((await list('member', 'list', 'many/a')).items).toContainEqual({
      username: 'bob',
      name: '',
      role: 'developer',
      group_role: 'guest',
      repository_role: 'developer',
    })
    expect((await svc.run('member', 'list', 'many', '--limit', '1')).stdout).toBe(
      'admin      ann\nMore results: --after ann\n',
    )

    const id = (await findRepositoryByPath(svc.db, 'many/a'))?.id ?? ''
    const words = ['many/a', '--visibility', 'public', '--description', 'Open']
    expect(await svc.json('repository', 'set', ...words)).toEqual({
      path: 'many/a',
      visibility: 'public',
      description: 'Open',
      release: 'direct',
      two_people: false,
    })
    expect(await svc.fail('group', 'delete', 'many', '--force')).toContain('many has 3 repositories (many/')
    expect(await svc.json('repository', 'delete', 'many/c', '--force')).toEqual({ path: 'many/c' })
    expect(await svc.json('group', 'delete', 'many', '--with-repositories', '--force')).toEqual({
      group: 'many',
      repositories: ['many/c', 'many/a', 'many/b-1'],
    })
    expect(await svc.fail('repository', 'list', 'many')).toContain('There is no group "many".')
    const events = await eventsOf(svc.db, { repositoryId: id }, ['action', 'details'])
    expect(events.slice(-2)).toEqual([
      {
        action: 'change-repository',
        details: {
          visibility: 'public',
          description: 'Open',
          from: { visibility: 'private', description: '' },
        },
      },
      { action: 'delete-repository', details: { path: 'many/a' } },
    ])
  })

  it('restore a deleted repository, which --deleted lists', async () => {
    await svc.json('group', 'create', 'undone', '--owner', 'ann')
    for (const name of ['a', 'b']) await svc.json('repository', 'create', `undone/${name}`)
    for (const name of ['a', 'b']) await svc.json('repository', 'delete', `undone/${name}`, '--force')
    type Listed = { items: object[]; next: string | null }
    const deleted = (...words: string[]) =>
      svc.json<Listed>('repository', 'list', 'undone', '--deleted', ...words)
    expect(await deleted('--limit', '1')).toEqual({
      items: [{ path: 'undone/a', deleted_at: expect.any(String), restorable_until: expect.any(String) }],
      next: 'undone/a',
    })
    expect((await deleted('--after', 'undone/a')).items).toMatchObject([{ path: 'undone/b' }])
    expect(await svc.fail('repository', 'create', 'undone/a')).toContain(
      'A deleted repository of the group has this name. Restore it, or choose another name.',
    )
    expect(await svc.json('repository', 'restore', 'undone/a')).toEqual({ path: 'undone/a' })
    expect((await svc.json<Listed>('repository', 'list', 'undone')).items).toMatchObject([
      { path: 'undone/a' },
    ])
    expect(await svc.fail('repository', 'restore', 'undone/a')).toContain(
      'undone has no deleted repository a',
    )
    expect(await svc.fail('group', 'delete', 'undone', '--force')).toContain('undone has 2 repositories (')
  })

  it('keep a group’s last admin, unless forced', async () => {
    await svc.json('group', 'create', 'lonely', '--owner', 'ann')
    const message = 'ann is the last admin of lonely. Make another account admin first, or use --force.'
    expect(await svc.fail('member', 'set', 'lonely', 'ann', 'none')).toBe(`svc: ${message}`)
    expect(await svc.fail('member', 'set', 'lonely', 'ann', 'developer')).toBe(`svc: ${message}`)
    await svc.json('member', 'set', 'lonely', 'ann', 'none', '--force')
  })

  it.each([
    ['group create acme --owner ann', 'A group with this name already exists.'],
    [
      'group create oauth2 --owner ann',
      'A group cannot have this name, because other URLs of svc start with it.',
    ],
    ['group create A --owner ann', 'A group’s name has at most 64 characters'],
    ['group create other --owner eve', 'There is no account "eve".'],
    ['repository create acme/php', 'The group already has a repository with this name.'],
    ['repository create acme/x --description Two\nlines', 'description must not contain control characters.'],
    ['group rename acme Acme', 'A group’s name has at most 64 characters'],
    ['group rename none acme2', 'There is no group "none".'],
    ['repository set acme/php', 'Nothing to change'],
    ['repository list --limit 0', 'It must be a whole number of items from 1 to 1000.'],
    ['repository create other/php', 'There is no group "other".'],
    ['repository create acme', 'Write the repository as <group>/<name>, such as acme/php.'],
    ['repository create acme/php/x', 'Write the repository as <group>/<name>, such as acme/php.'],
    ['repository create acme/x --visibility secret', 'Allowed choices are private, public.'],
    ['member set acme/none ann guest', 'There is no repository "acme/none".'],
    ['member set acme ann owner', 'Allowed choices are guest, developer, admin, none.'],
  ])('refuse svc %s', async (line, message) => {
    expect(await svc.fail(...line.split(' '))).toContain(message)
  })
})
