import { describe, expect, it } from 'vitest'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import {
  addGroup,
  changeGroupName,
  changeRepositoryName,
  deleteGroup,
  deleteRepository,
} from '../../src/groups/group-lifecycle.ts'
import { findGroup } from '../../src/groups/groups.ts'
import { purgeRepository } from '../../src/groups/repositories.ts'
import { renderOutdatedJob, rerenderDocuments } from '../../src/packages/documents/rerender.ts'
import { aGroup, aName, anAccount, aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { ageReservation, listAliases, listReservedNames, listTakenAliases } from '../support/group-rows.ts'
import { aPublisher, basic } from '../support/registry-actors.ts'

describe('a group', () => {
  const t = useApp()

  it('keeps its packages under a new name, and its documents have the new URLs', async () => {
    const { push, repository, token } = await aPublisher(t)
    await push('1.0.0')
    const [groupName = '', name = ''] = repository.path.split('/')
    const group = await findGroup(t.db, groupName)
    if (!group) throw new Error('no group')
    const newName = aName('renamed')
    await changeGroupName(t.db, operator, group, newName)
    await rerenderDocuments(t.db, t.config.baseUrl)

    const headers = { authorization: basic(token) }
    const read = async (url: string) => t.app.inject({ url, headers })
    const below = `/${newName}/${name}/-/packages/`
    expect((await read(`${below}packages.json`)).body).toContain(below)
    const document = (await read(`${below}p2/acme/lib.json`)).json()
    const { url } = document.packages['acme/lib'][0].dist
    expect(url).toContain(below)
    expect((await read(new URL(url).pathname)).statusCode).toBe(200)

    expect(await deleteGroup(t.db, operator, group)).toMatchObject({ isDeleted: false })
    expect(await deleteGroup(t.db, operator, group, { withRepositories: true })).toEqual({
      isDeleted: true,
      repositories: [`${newName}/${name}`],
    })
    expect((await read(`${below}packages.json`)).statusCode).toBe(404)
  })

  it('serves its old URLs under every former name, and also former names of its repositories', async () => {
    const { push, ask, repository, token } = await aPublisher(t)
    await push('1.0.0')
    const { url } = (await ask('p2/acme/lib.json')).json().packages['acme/lib'][0].dist
    const [groupName = '', name = ''] = repository.path.split('/')
    const group = await findGroup(t.db, groupName)
    if (!group) throw new Error('no group')
    const [second, third] = [aName('second'), aName('third')]
    await changeGroupName(t.db, operator, group, second)
    await changeRepositoryName(t.db, operator, repository.id, 'renamed')
    await changeGroupName(t.db, operator, { ...group, name: second }, third)

    const headers = { authorization: basic(token) }
    for (const former of [`${groupName}/${name}`, `${second}/${name}`, `${second}/renamed`]) {
      const root = await t.app.inject({ url: `/${former}/-/packages/packages.json`, headers })
      expect([former, root.statusCode]).toEqual([former, 200])
      expect(root.body).toContain(`/${third}/renamed/-/packages/p2/`)
    }
    expect((await t.app.inject({ url: new URL(url).pathname, headers })).statusCode).toBe(200)
    expect((await push('1.1.0')).statusCode).toBe(201)
    expect((await t.app.inject({ url: new URL(url).pathname })).statusCode).toBe(401)

    await deleteGroup(t.db, operator, { ...group, name: third }, { withRepositories: true })
    expect((await t.app.inject({ url: new URL(url).pathname, headers })).statusCode).toBe(404)
  })

  it('redirects its old pages to those who may see it, and hides its new name from others', async () => {
    const { push, repository } = await aPublisher(t, { visibility: 'public' })
    await push('1.0.0')
    const hidden = await aRepository(t.db)
    const [groupName = '', name = ''] = repository.path.split('/')
    const [hiddenName = ''] = hidden.path.split('/')
    const newNames = [aName('shown'), aName('hidden')] as const
    for (const [old, newName] of [
      [groupName, newNames[0]],
      [hiddenName, newNames[1]],
    ] as const) {
      const group = await findGroup(t.db, old)
      if (group) await changeGroupName(t.db, operator, group, newName)
    }
    for (const below of ['', `/${name}`, `/${name}/packages/acme/lib?x=1`]) {
      const moved = await t.app.inject(`/${groupName}${below}`)
      expect([moved.statusCode, moved.headers.location]).toEqual([301, `/${newNames[0]}${below}`])
    }
    for (const path of [`/${groupName}/none`, `/${newNames[0]}/none`, `/${hiddenName}`, `/${hidden.path}`]) {
      const missing = await t.app.inject(path)
      expect([path, missing.statusCode]).toEqual([path, 404])
      expect(missing.body).not.toContain(newNames[1])
    }
  })
})

describe('the name of a renamed or deleted group', () => {
  const t = useApp()
  const reserved = { constraint: 'group_name_is_reserved' }
  const rename = (group: { id: string; name: string }, name: string, options = {}) =>
    changeGroupName(t.db, operator, group, name, options)

  it('is reserved for 90 days for the group itself', async () => {
    const [group, other, owner] = [await aGroup(t.db), await aGroup(t.db), await anAccount(t.db)]
    const second = aName('second')
    await rename(group, second)
    await expect(addGroup(t, operator, group.name, owner)).rejects.toMatchObject(reserved)
    await expect(rename(other, group.name)).rejects.toMatchObject(reserved)

    await rename({ ...group, name: second }, group.name)
    await expect(addGroup(t, operator, second, owner)).rejects.toMatchObject(reserved)
    await deleteGroup(t.db, operator, group)
    await expect(addGroup(t, operator, group.name, owner)).rejects.toMatchObject(reserved)
    await expect(rename(other, second)).rejects.toMatchObject(reserved)

    await ageReservation(t.db, group, 90)
    await addGroup(t, operator, group.name, owner)
    await rename(other, second)
    // The reservations that are over were removed. That of the last rename remains.
    expect(await listReservedNames(t.db, [group, other])).toEqual([other.name])
  })

  it.each(['renamed', 'deleted', 'emptied before it is deleted'])(
    'is never given away by time if the group has published and is %s',
    async (end) => {
      const { push, repository } = await aPublisher(t)
      await push('1.0.0')
      const owner = await anAccount(t.db)
      const group = await findGroup(t.db, repository.path.split('/')[0] ?? '')
      if (!group) throw new Error('no group')
      if (end === 'emptied before it is deleted') await deleteRepository(t.db, operator, repository)
      if (end === 'renamed') await rename(group, aName('renamed'))
      else await deleteGroup(t.db, operator, group, { withRepositories: true })
      await ageReservation(t.db, group, 90)
      await expect(addGroup(t, operator, group.name, owner)).rejects.toMatchObject(reserved)
      await addGroup(t, operator, group.name, owner, { force: true })
    },
  )

  it('is given to another group with force, whose former name it is then', async () => {
    const [first, other, owner] = [await aGroup(t.db), await aGroup(t.db), await anAccount(t.db)]
    await rename(first, aName('renamed'))
    const made = await addGroup(t, operator, first.name, owner, { force: true })
    await deleteGroup(t.db, operator, made)
    await expect(rename(first, first.name)).rejects.toMatchObject(reserved)
    await rename(other, first.name, { force: true })
    await expect(addGroup(t, operator, other.name, owner)).rejects.toMatchObject(reserved)
  })

  it('is not given to a group that is created during the rename or deletion', async () => {
    const owner = await anAccount(t.db)
    for (let round = 0; round < 20; round += 1) {
      const group = await aGroup(t.db)
      const end = round % 2 === 0 ? rename(group, aName('renamed')) : deleteGroup(t.db, operator, group)
      const [ended, ...made] = await Promise.allSettled([
        end,
        ...Array.from({ length: 4 }, () => addGroup(t, operator, group.name, owner)),
      ])
      expect(ended.status).toBe('fulfilled')
      expect(made.map(({ status }) => status)).toEqual(made.map(() => 'rejected'))
    }
  })
})

describe('a renamed repository', () => {
  const t = useApp()

  it('serves its old URLs, and gets documents with the new ones', async () => {
    const { push, ask, repository, token } = await aPublisher(t, { role: 'admin' })
    await push('1.0.0')
    const oldUrl = (await ask('p2/acme/lib.json')).json().packages['acme/lib'][0].dist.url
    const newName = aName('renamed')
    const newPath = `${repository.path.split('/')[0]}/${newName}`
    expect(await changeRepositoryName(t.db, operator, repository.id, newName)).toBe(true)
    await renderOutdatedJob.run({ ...t, log: t.app.log }, {}, new AbortController().signal)

    const headers = { authorization: basic(token) }
    for (const path of [repository.path, newPath]) {
      const document = (await t.app.inject({ url: `/${path}/-/packages/p2/acme/lib.json`, headers })).json()
      const { url } = document.packages['acme/lib'][0].dist
      expect(url).toContain(`/${newPath}/-/packages/dist/`)
      expect((await t.app.inject({ url: new URL(url).pathname, headers })).statusCode).toBe(200)
      const root = await t.app.inject({ url: `/${path}/-/packages/packages.json`, headers })
      expect(root.body).toContain(`/${newPath}/-/packages/p2/`)
    }
    expect((await t.app.inject({ url: new URL(oldUrl).pathname, headers })).statusCode).toBe(200)
    expect((await push('1.1.0')).statusCode).toBe(201)
    const anonymous = await t.app.inject(new URL(oldUrl).pathname)
    expect(anonymous.statusCode).toBe(401)
  })

  it('keeps its old name for itself, through further renames and back', async () => {
    const repository = await aRepository(t.db, { name: 'first' })
    const other = await aRepository(t.db, { group: repository.group, name: 'other' })
    const rename = (id: string, name: string) => changeRepositoryName(t.db, operator, id, name)
    await rename(repository.id, 'second')
    await rename(repository.id, 'third')
    for (const name of ['first', 'second']) {
      const reserved = { constraint: 'repository_name_is_reserved' }
      await expect(rename(other.id, name)).rejects.toMatchObject(reserved)
      await expect(aRepository(t.db, { group: repository.group, name })).rejects.toMatchObject(reserved)
    }
    await expect(rename(other.id, 'third')).rejects.toMatchObject({ constraint: 'repository_name_is_taken' })
    await expect(rename(other.id, 'No')).rejects.toMatchObject({
      constraint: 'repository_name_is_well_formed',
    })
    await rename(repository.id, 'first')
    expect(await listAliases(t.db, repository)).toEqual(['second', 'third'])
    await rename(repository.id, 'first')
    // The name is free in another group, and after the repository with that name was removed for good.
    await aRepository(t.db, { name: 'second' })
    await deleteRepository(t.db, operator, repository)
    await expect(rename(other.id, 'second')).rejects.toMatchObject({
      constraint: 'repository_name_is_reserved',
    })
    await transaction(t.db, (tx) => purgeRepository(tx, repository.id))
    await rename(other.id, 'second')
  })

  it('lets one of concurrent renames and creations take a name', async () => {
    for (let round = 0; round < 5; round += 1) {
      const repository = await aRepository(t.db, { name: 'old' })
      const { group } = repository
      await Promise.allSettled([
        changeRepositoryName(t.db, operator, repository.id, 'new'),
        aRepository(t.db, { group, name: 'old' }),
        aRepository(t.db, { group, name: 'new' }),
      ])
      expect(await listTakenAliases(t.db, group)).toEqual([])
    }
  })
})
