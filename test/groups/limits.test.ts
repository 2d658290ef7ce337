import { describe, expect, it } from 'vitest'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { addGroup, addRepository } from '../../src/groups/group-lifecycle.ts'
import { requireBelowLimit } from '../../src/groups/limits.ts'
import { requestPackage } from '../../src/upstreams/configure.ts'
import { requestName } from '../../src/upstreams/tables/mirrored-packages.ts'
import {
  aGroup,
  aGroupMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  csrfTokenIn,
  groupOf,
  post,
  signIn,
} from '../support/actors.ts'
import { aCaller, asOperator, callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { openTransaction, untilWaiting } from '../support/locks.ts'
import { manyRequestedNames } from '../support/mirrored-rows.ts'
import { aPublisher } from '../support/registry-actors.ts'
import { expire } from '../support/rows.ts'
import { endStageTime } from '../support/stage-rows.ts'
import { listPersonalTokenIds } from '../support/token-rows.ts'
import { useUpstream } from '../support/upstream.ts'
import { anUpstream, markRemoved } from '../support/upstream-rows.ts'

const upstream = useUpstream()
const t = useApp({
  ACCOUNT_MAX_GROUPS: '2',
  ACCOUNT_MAX_TOKENS: '2',
  GROUP_MAX_REPOSITORIES: '2',
  GROUP_MAX_DEPLOY_TOKENS: '2',
  GROUP_MAX_UPSTREAMS: '2',
  REPOSITORY_MAX_STAGES: '2',
  OUTBOUND_HTTP: 'true',
  OUTBOUND_PRIVATE_HOSTS: '127.0.0.1',
})

/** An admin of a group, with a browser and a token for the endpoints of groups. */
async function anAdmin() {
  const account = await anAccount(t.db)
  const group = await aGroup(t.db)
  await aGroupMember(t.db, account, group, 'admin')
  const cookie = await signIn(t.app, account)
  const token = await aPersonalToken(t.db, account, {
    scopes: ['group-resource:rw', 'group-manage:rw', 'registry-package:rw', 'repo-basic-info:r'],
  })
  const csrf_token = csrfTokenIn(await t.app.inject({ url: '/settings/account', headers: { cookie } }))
  return {
    account,
    group,
    send: (url: string, form: Record<string, string>) => post(t.app, url, cookie, { csrf_token, ...form }),
    call: (url: string, payload: object) => callApi(t, token, 'POST', url, payload),
  }
}

const statuses = (responses: { statusCode: number }[]) =>
  responses.map(({ statusCode }) => statusCode).sort((a, b) => a - b)
const eightTimes = <T>(act: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: 8 }, (_, i) => act(i)))

describe('an account', () => {
  it('creates at most ACCOUNT_MAX_GROUPS groups, also with eight requests at once', async () => {
    const { send, call } = await anAdmin()
    const created = await eightTimes(() => call('/api/groups', { name: aName('group') }))
    expect(statuses(created)).toEqual([201, 201, ...Array(6).fill(403)])
    expect(created.find(({ statusCode }) => statusCode === 403)?.json()).toEqual({
      errcode: 8,
      errmsg:
        'the account has the maximum of 2 groups that it created: remove one, or ask an administrator about ACCOUNT_MAX_GROUPS',
    })
    const refused = await send('/new/group', { name: aName('group') })
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain('The account has the maximum of 2 groups that it created')
  })

  it('is not limited by groups that others have given it', async () => {
    const { account, call } = await anAdmin()
    for (let i = 0; i < 3; i++) await aGroupMember(t.db, account, await aGroup(t.db), 'admin')
    await addGroup(t, operator, aName('group'), account)
    expect((await call('/api/groups', { name: aName('group') })).statusCode).toBe(201)
  })

  it('has at most ACCOUNT_MAX_TOKENS tokens that work', async () => {
    const { account, send } = await anAdmin()
    const choice = {
      scope: 'registry-package:r',
      resource_scope: 'all',
      lifetime_in_days: '30',
      action: 'create',
    }
    const make = () => send('/settings/tokens', { name: aName('token'), ...choice })
    expect((await make()).statusCode).toBe(200)
    const refused = await make()
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain('The account has the maximum of 2 personal access tokens')
    const [first = ''] = await listPersonalTokenIds(t.db, account)
    await expire(t.db, 'personal_token', { id: first })
    expect((await make()).statusCode).toBe(200)
  })
})

describe('a group', () => {
  it('has at most GROUP_MAX_REPOSITORIES repositories, also with eight requests at once', async () => {
    const { group, send, call } = await anAdmin()
    const url = `/api/groups/${group.name}/repositories`
    const created = await eightTimes(() => call(url, { name: aName('repository') }))
    expect(statuses(created)).toEqual([201, 201, ...Array(6).fill(403)])
    const form = { group: group.name, name: 'another', visibility: 'private', description: '' }
    const refused = await send('/new/repository', form)
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain('The group has the maximum of 2 repositories')
  })

  it('has at most GROUP_MAX_DEPLOY_TOKENS deploy tokens that work, also with eight requests at once', async () => {
    const { group, send, call } = await anAdmin()
    const wanted = { right: 'read', expires_in_days: 1 }
    const created = await eightTimes(() =>
      call(`/api/groups/${group.name}/deploy-tokens`, { ...wanted, name: aName('token') }),
    )
    expect(statuses(created)).toEqual([201, 201, ...Array(6).fill(403)])
    const form = { name: 'another', right: 'read', resource_scope: 'all', lifetime_in_days: '30' }
    const refused = await send(`/${group.name}/-/deploy-tokens`, form)
    expect(refused.body).toContain('The group has the maximum of 2 deploy tokens')
  })

  it('has at most GROUP_MAX_UPSTREAMS upstreams in all its repositories', async () => {
    const group = await aGroup(t.db)
    const admin = await aCaller(t, { repository: await aRepository(t.db, { group }) })
    const other = await aCaller(t, { repository: await aRepository(t.db, { group }) })
    expect((await admin.call('POST', '/upstreams', { url: upstream.url, name: 'one' })).statusCode).toBe(201)
    // Below the limit, the upstream of an admin is refused for another reason: it is on this machine.
    const before = await callApi(
      t,
      other.token,
      'POST',
      `/api/repositories/${other.repository.path}/upstreams`,
      {
        url: upstream.url,
      },
    )
    expect(before.json().errcode).toBe(9)
    expect((await other.call('POST', '/upstreams', { url: upstream.url, name: 'two' })).statusCode).toBe(201)
    const refused = await callApi(
      t,
      other.token,
      'POST',
      `/api/repositories/${other.repository.path}/upstreams`,
      {
        url: upstream.url,
      },
    )
    expect([refused.statusCode, refused.json().errcode]).toEqual([403, 8])
    expect(refused.json().errmsg).toContain('the group has the maximum of 2 upstreams')
    await markRemoved(t.db, { name: /^one$/ })
    const { id: accountId } = other.account
    await transaction(t.db, (tx) =>
      requireBelowLimit(tx, t.config, { ...operator, via: 'browser', accountId }, 'upstreams', group.id),
    )
  })
})

describe('an operator', () => {
  it('is not limited on the command line', async () => {
    const { account, group } = await anAdmin()
    for (let i = 0; i < 3; i++) await addGroup(t, operator, aName('group'), account)
    for (let i = 0; i < 3; i++) {
      await addRepository(t, operator, { groupId: group.id, name: `r${i}`, visibility: 'private' })
    }
  })

  it('is not limited as a site administrator', async () => {
    const { account, call } = await anAdmin()
    const created = await asOperator(t, account.id, () =>
      eightTimes(() => call('/api/groups', { name: aName('group') })),
    )
    expect(statuses(created)).toEqual(Array(8).fill(201))
  })
})

describe('a repository', () => {
  it('has at most REPOSITORY_MAX_STAGES staged versions that wait, also with eight uploads at once', async () => {
    const { stage, push } = await aPublisher(t)
    const staged = await eightTimes((i) => stage('1.0.0', { name: `acme/lib${i}` }))
    expect(statuses(staged)).toEqual([202, 202, ...Array(6).fill(403)])
    expect(staged.find(({ statusCode }) => statusCode === 403)?.json()).toEqual({
      errcode: 8,
      errmsg:
        'the repository has the maximum of 2 staged versions that wait: release or reject one, or ask an administrator about REPOSITORY_MAX_STAGES',
    })
    const accepted = staged.filter(({ statusCode }) => statusCode === 202)
    const [id = ''] = accepted.map((response) => response.json().id as string)
    await endStageTime(t.db, id)
    expect((await stage('1.0.0', { name: 'acme/other' })).statusCode).toBe(202)
    expect((await push('1.0.0', { name: 'acme/direct' })).statusCode).toBe(201)
  })

  it('has at most 50 upstreams, also when two site administrators add them at once', async () => {
    const { repository, account, call } = await aCaller(t)
    const group = await groupOf(t.db, repository)
    for (let i = 1; i < 50; i++) await anUpstream(t.db, repository, { name: `n${i}`, url: `https://h${i}/` })
    const first = await openTransaction(t.db)
    const by = { ...operator, accountId: account.id }
    await requireBelowLimit(first.tx, t.config, by, 'upstreams', group.id)
    await anUpstream(first.tx, repository, { name: 'first', url: 'https://first/' })
    const second = call('POST', '/upstreams', { url: upstream.url, name: 'second' })
    await Promise.race([second, untilWaiting(t.db)])
    await first.commit()
    expect((await second).json()).toEqual({
      errcode: 3,
      errmsg: 'a repository can have at most 50 upstreams',
    })
  })

  it('has at most 1,000 requested names, also when two are requested at once', async () => {
    const repository = await aRepository(t.db)
    const account = await anAccount(t.db)
    await manyRequestedNames(t.db, repository, account, 999)
    const request = { repositoryId: repository.id, by: { ...operator, accountId: account.id } }
    const first = await openTransaction(t.db)
    expect(await requestName(first.tx, repository.id, 'acme/first', account.id)).toBe(true)
    const second = requestPackage(t.db, request, 'acme/second')
    await Promise.race([second, untilWaiting(t.db)])
    await first.commit()
    expect(await second).toBe(false)
  })
})
