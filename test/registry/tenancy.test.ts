import { describe, expect, it } from 'vitest'
import { rerenderDocuments } from '../../src/registry/documents/rerender.ts'
import { commandLine } from '../../src/registry/tables/events.ts'
import { changeGroupName, removeGroup } from '../../src/registry/tenancy.ts'
import { findGroup } from '../../src/repositories/groups.ts'
import { aName } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { aPublisher, basic } from '../support/registry-actors.ts'

describe('a group', () => {
  const t = useApp()

  it('keeps its packages under a new name, whose URLs its documents have', async () => {
    const { push, repository, token } = await aPublisher(t)
    await push('1.0.0')
    const [groupName = '', name = ''] = repository.path.split('/')
    const group = await findGroup(t.db, groupName)
    if (!group) throw new Error('no group')
    const newName = aName('renamed')
    await changeGroupName(t.db, commandLine, group, newName)
    await rerenderDocuments(t.db, t.config.baseUrl)

    const headers = { authorization: basic(token) }
    const read = async (url: string) => t.app.inject({ url, headers })
    expect((await read(`/${repository.path}/-/packages/packages.json`)).statusCode).toBe(404)
    const below = `/${newName}/${name}/-/packages/`
    expect((await read(`${below}packages.json`)).body).toContain(below)
    const document = (await read(`${below}p2/acme/lib.json`)).json()
    const { url } = document.packages['acme/lib'][0].dist
    expect(url).toContain(below)
    expect((await read(new URL(url).pathname)).statusCode).toBe(200)

    expect(await removeGroup(t.db, commandLine, group)).toMatchObject({ isDeleted: false })
    expect(await removeGroup(t.db, commandLine, group, { force: true })).toEqual({
      isDeleted: true,
      repositories: [`${newName}/${name}`],
    })
    expect((await read(`${below}packages.json`)).statusCode).toBe(404)
  })
})
