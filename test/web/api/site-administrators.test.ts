import { describe, expect, it } from 'vitest'
import { operator } from '../../../src/domain/principal.ts'
import { addGroup } from '../../../src/groups/group-lifecycle.ts'
import { setAdministrator } from '../../support/account-rows.ts'
import {
  aGroup,
  aGroupMember,
  aMember,
  aName,
  anAccount,
  anAdminToken,
  aRepository,
} from '../../support/actors.ts'
import { callApi, type Method } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { anAuthorizedApplication } from '../../support/token-client.ts'

const t = useApp()
const scopes = ['group-resource:rw', 'group-manage:rw', 'group-delete:rw', 'registry-manage:rw']

/** A site administrator, with calls by a personal access token and by an application with the same scopes. */
async function aSiteAdministrator() {
  const { account, tokens } = await anAuthorizedApplication(t, { scopes })
  await setAdministrator(t.db, account, true)
  const { access_token } = await tokens()
  const personal = await anAdminToken(t.db, account, { scopes })
  const callWith = (token: string) => (method: Method, url: string, body?: object) =>
    callApi(t, token, method, `/api${url}`, body)
  return { account, byApplication: callWith(access_token), byPerson: callWith(personal) }
}

describe('an application of a site administrator', () => {
  it('manages no group in which the account has no role', async () => {
    const { byApplication, byPerson } = await aSiteAdministrator()
    const { name } = await aGroup(t.db)
    const member = `/groups/${name}/members/${(await anAccount(t.db)).username}`
    const calls: [Method, string, object?][] = [
      ['GET', `/groups/${name}`],
      ['PATCH', `/groups/${name}`, { requires_second_factor: false }],
      ['PUT', member, { role: 'guest' }],
      ['GET', `/groups/${name}/members`],
      ['DELETE', member],
      ['GET', `/groups/${name}/deploy-tokens`],
      ['GET', `/groups/${name}/invitations`],
    ]
    for (const [method, url, body] of calls) {
      expect([method, url, (await byApplication(method, url, body)).statusCode]).toEqual([method, url, 404])
      const { statusCode } = await byPerson(method, url, body)
      expect([method, url, statusCode]).toEqual([method, url, method === 'DELETE' ? 204 : 200])
    }
    const url = `/groups/${name}/repositories`
    expect((await byApplication('POST', url, { name: 'php' })).statusCode).toBe(404)
    expect((await byPerson('POST', url, { name: 'php' })).statusCode).toBe(201)
  })

  it('reaches no repository in which the account has no role', async () => {
    const { account, byApplication, byPerson } = await aSiteAdministrator()
    const repository = await aRepository(t.db)
    const url = `/repositories/${repository.path}/members`
    expect((await byApplication('GET', url)).statusCode).toBe(404)
    expect((await byPerson('GET', url)).statusCode).toBe(200)
    await aMember(t.db, account, repository, 'admin')
    expect((await byApplication('GET', url)).statusCode).toBe(200)
  })

  it('has the role of the account in a group that it sees', async () => {
    const { account, byApplication } = await aSiteAdministrator()
    const { group } = await aRepository(t.db, { visibility: 'public' })
    expect((await byApplication('GET', `/groups/${group.name}`)).statusCode).toBe(403)
    await aGroupMember(t.db, account, group, 'admin')
    expect((await byApplication('GET', `/groups/${group.name}`)).statusCode).toBe(200)
  })

  it('renames and deletes no group, and reads no events of the site', async () => {
    const { account, byApplication, byPerson } = await aSiteAdministrator()
    const [group, renamed] = [await aGroup(t.db), aName('renamed')]
    await aGroupMember(t.db, account, group, 'admin')
    expect((await byApplication('PATCH', `/groups/${group.name}`, { name: renamed })).statusCode).toBe(403)
    expect((await byApplication('DELETE', `/groups/${group.name}`)).statusCode).toBe(403)
    expect((await byApplication('GET', '/events')).statusCode).toBe(403)
    expect((await byPerson('PATCH', `/groups/${group.name}`, { name: renamed })).statusCode).toBe(200)
    expect((await byPerson('DELETE', `/groups/${renamed}`)).statusCode).toBe(204)
    expect((await byPerson('DELETE', `/groups/${renamed}`)).statusCode).toBe(404)
    expect((await byPerson('GET', '/events')).statusCode).toBe(200)
  })

  it('does not see the client IPs of a group’s events', async () => {
    const { account, byApplication, byPerson } = await aSiteAdministrator()
    const owner = await anAccount(t.db)
    const name = aName('team')
    const by = { ...operator, via: 'browser' as const, accountId: owner.id, ip: '192.0.2.7' }
    const group = await addGroup(t, by, name, owner)
    const repository = await aRepository(t.db, { group: { ...group, name } })
    await aMember(t.db, account, repository, 'admin')
    const { path } = repository
    const ipOf = async (call: typeof byPerson) => {
      const events = (await call('GET', `/repositories/${path}/events`)).json()
      return events.find(({ action }: { action: string }) => action === 'create-group').ip
    }
    expect([await ipOf(byPerson), await ipOf(byApplication)]).toEqual(['192.0.2.7', null])
  })
})
