import { describe, expect, it } from 'vitest'
import { measureGroup } from '../../src/archives/tables/archives.ts'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { listGroupEvents } from '../../src/events/event-list.ts'
import {
  accountReader,
  listAccessibleRepositories,
  searchRepositories,
} from '../../src/groups/accessible-repositories.ts'
import { listDeletedRepositories, unhideRepository } from '../../src/groups/deleted-repositories.ts'
import {
  addRepository,
  changeGroupName,
  changeRepositoryName,
  deleteGroup,
  deleteRepository,
  removeExpiredRepositoriesJob,
  restoreRepository,
} from '../../src/groups/group-lifecycle.ts'
import { findGroup } from '../../src/groups/groups.ts'
import { changePaths } from '../../src/groups/path-locks.ts'
import { findRepositoryByPath, listRepositories } from '../../src/groups/repositories.ts'
import type { JobContext } from '../../src/jobs/job.ts'
import { rerenderDocuments } from '../../src/packages/documents/rerender.ts'
import { searchAllPackages } from '../../src/packages/tables/found-packages.ts'
import { releaseVendorByHand } from '../../src/upstreams/claims.ts'
import { listUpstreams, listUpstreamsToFollow } from '../../src/upstreams/tables/upstreams.ts'
import {
  aDeployToken,
  aGroup,
  aGroupMember,
  aName,
  anAccount,
  anAdminToken,
  aPersonalToken,
  aRepository,
  csrfTokenIn,
  post,
  signIn,
} from '../support/actors.ts'
import { callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { countEvents, eventsOf } from '../support/event-rows.ts'
import { ageDeletion, markClaimedByHand, markDeletedNow } from '../support/group-rows.ts'
import { untilWaiting } from '../support/locks.ts'
import { aPublisher, basic } from '../support/registry-actors.ts'
import { countRows } from '../support/rows.ts'
import { announceChanges, anUpstream, markRemoved } from '../support/upstream-rows.ts'

const t = useApp({ GROUP_MAX_REPOSITORIES: '2', UPSTREAM_HTTP: 'true' })
const part = { after: null, limit: 100 }

/** A public repository with a version, its group, an admin of the group, and acts on the repository. */
async function aPublished() {
  const group = await aGroup(t.db)
  const repository = await aRepository(t.db, { group, visibility: 'public' })
  const publisher = await aPublisher(t, { repository })
  await publisher.push('1.0.0', { name: `${group.name}/lib` })
  const admin = await anAccount(t.db)
  await aGroupMember(t.db, admin, group, 'admin')
  const name = repository.path.split('/')[1] ?? ''
  return {
    ...publisher,
    group,
    repository,
    name,
    admin,
    document: `p2/${group.name}/lib.json`,
    remove: () => deleteRepository(t.db, operator, repository),
    restore: () => restoreRepository(t.db, operator, group, name),
    expire: () => ageDeletion(t.db, repository, 14),
  }
}
type Published = Awaited<ReturnType<typeof aPublished>>

const removeExpired = () =>
  removeExpiredRepositoriesJob.run(t as unknown as JobContext, {}, new AbortController().signal)

/** Who pulls from the repository, reads its page, or finds it in the API. */
async function seen({ repository: { path }, document, group, account }: Published) {
  const root = await anAccount(t.db, { isAdmin: true })
  const secrets = {
    nobody: null,
    member: await aPersonalToken(t.db, account, { scopes: ['registry-package:rw', 'repo-basic-info:r'] }),
    deploy: await aDeployToken(t.db, group),
    admin: await anAdminToken(t.db, root, { scopes: ['registry-package:rw', 'repo-basic-info:r'] }),
  }
  const cookie = await signIn(t.app, root)
  const statuses: Record<string, number> = {}
  for (const [who, secret] of Object.entries(secrets)) {
    const authorization = secret && basic(secret)
    for (const url of ['packages.json', document]) {
      const response = await t.app.inject({
        url: `/${path}/-/packages/${url}`,
        headers: authorization === null ? {} : { authorization },
      })
      statuses[`${who} ${url}`] = response.statusCode
    }
    if (secret)
      statuses[`${who} api`] = (await callApi(t, secret, 'GET', `/api/repositories/${path}`)).statusCode
  }
  for (const url of [`/${path}`, `/${path}/packages/${group.name}/lib`, `/${path}/-/settings`]) {
    statuses[`page ${url}`] = (await t.app.inject({ url, headers: { cookie } })).statusCode
  }
  return Object.values(statuses)
}

/** Where lists and searches name the repository or its package, for a site administrator and for a member. */
async function listed({ repository, group, account }: Published) {
  const root = await anAccount(t.db, { isAdmin: true })
  const found: string[] = []
  for (const { id } of [root, account]) {
    const own = await listAccessibleRepositories(t.db, accountReader(id), { ...part, limit: 1000 })
    found.push(...own.map(({ path }) => path))
    found.push(...(await searchRepositories(t.db, id, group.name, 100)).map(({ path }) => path))
    found.push(...(await searchAllPackages(t.db, id, group.name, 100)).map((one) => one.repositoryPath))
    const { body } = await t.app.inject({
      url: `/search?q=${group.name}`,
      headers: { cookie: await signIn(t.app, id === root.id ? root : account) },
    })
    if (body.includes(`href="/${repository.path}`)) found.push(repository.path)
  }
  found.push(...(await listRepositories(t.db, { groupId: group.id }, part)).map(({ path }) => path))
  if ((await findRepositoryByPath(t.db, repository.path)) !== null) found.push(repository.path)
  return found.filter((path) => path === repository.path).length
}

describe('a deleted repository', () => {
  it('is invisible to everybody, and comes back as it was', async () => {
    const published = await aPublished()
    expect(new Set(await seen(published))).toEqual(new Set([200]))
    const before = await listed(published)
    expect(before).toBeGreaterThan(8)

    await published.remove()
    // Without credentials, a request for a repository that does not exist gets 401.
    expect(new Set(await seen(published))).toEqual(new Set([401, 404]))
    expect(await listed(published)).toBe(0)
    expect((await published.push('1.1.0')).statusCode).toBe(404)

    expect(await published.restore()).toBe(published.repository.path)
    expect(new Set(await seen(published))).toEqual(new Set([200]))
    expect(await listed(published)).toBe(before)
    expect((await published.push('1.1.0')).statusCode).toBe(201)
  })

  it('is not found by its former name', async () => {
    const published = await aPublished()
    const former = published.repository.path
    const newName = aName('renamed')
    await changeRepositoryName(t.db, operator, published.repository.id, newName)
    const pull = async () => (await published.ask('packages.json')).statusCode
    const page = async () => (await t.app.inject({ url: `/${former}` })).statusCode
    expect([await pull(), await page()]).toEqual([200, 301])
    await published.remove()
    expect([await pull(), await page()]).toEqual([404, 404])
    await restoreRepository(t.db, operator, published.group, newName)
    expect([await pull(), await page()]).toEqual([200, 301])
  })

  it('keeps its name, also from repositories that are created or renamed during the deletion', async () => {
    const taken = { constraint: 'repository_name_is_of_a_deleted_one' }
    const { group, name, remove } = await aPublished()
    const other = await aRepository(t.db, { group })
    const draft = { groupId: group.id, name, visibility: 'private' } as const
    const add = () => addRepository(t, operator, draft)
    const [removed, ...added] = await Promise.allSettled([remove(), add(), add(), add()])
    expect(removed.status).toBe('fulfilled')
    expect(added.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    await expect(add()).rejects.toMatchObject(taken)
    await expect(changeRepositoryName(t.db, operator, other.id, name)).rejects.toMatchObject(taken)
  })

  it('counts for the limits and the bytes of its group', async () => {
    const { group, admin, remove } = await aPublished()
    const bytes = await measureGroup(t.db, group.id)
    await remove()
    expect(bytes.stored).toBeGreaterThan(0)
    expect(await measureGroup(t.db, group.id)).toEqual(bytes)
    const by = { ...operator, via: 'browser' as const, accountId: admin.id }
    const add = () => addRepository(t, by, { groupId: group.id, name: aName('repo'), visibility: 'private' })
    await add()
    await expect(add()).rejects.toThrow('the group has the maximum of 2 repositories')
  })

  it('keeps the names of its packages from upstreams', async () => {
    const { group, remove } = await aPublished()
    await remove()
    await markClaimedByHand(t.db, group)
    await expect(releaseVendorByHand(t.db, operator, group, group.name)).rejects.toThrow('published')
  })

  it('asks its upstreams for nothing, and has those again that it had', async () => {
    const { repository, remove, restore } = await aPublished()
    const active = await anUpstream(t.db, repository, { name: 'active', url: 'https://active.example.com' })
    const former = await anUpstream(t.db, repository, { name: 'former', url: 'https://former.example.com' })
    await announceChanges(t.db, repository, 'https://x.example.com')
    await markRemoved(t.db, { id: former })
    const followed = async () =>
      (await listUpstreamsToFollow(t.db)).filter(({ id }) => id === active || id === former).length
    expect(await followed()).toBe(1)
    await remove()
    expect(await followed()).toBe(0)
    await restore()
    expect((await listUpstreams(t.db, repository.id)).map(({ name }) => name)).toEqual(['active'])
  })

  it('has the URLs of a group that was renamed in the meantime', async () => {
    const { group, name, document, authorization, remove } = await aPublished()
    await remove()
    const newName = aName('renamed')
    await changeGroupName(t.db, operator, group, newName)
    await restoreRepository(t.db, operator, { ...group, name: newName }, name)
    expect(await countRows(t.db, 'job', { name: 'render-outdated-documents' })).toBeGreaterThan(0)
    await rerenderDocuments(t.db, t.config.baseUrl)
    for (const url of ['packages.json', document]) {
      const path = `/${newName}/${name}/-/packages/`
      const { body } = await t.app.inject({ url: `${path}${url}`, headers: { authorization } })
      expect(body).toContain(path)
      expect(body).not.toContain(`/${group.name}/${name}/`)
    }
  })

  it('is restored by one of twenty racing requests', async () => {
    const { repository, remove, restore } = await aPublished()
    await remove()
    const restored = await Promise.allSettled(Array.from({ length: 20 }, restore))
    expect(restored.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const restorations = { repositoryId: repository.id, action: 'restore-repository' }
    expect(await countEvents(t.db, restorations)).toBe(1)
  })

  it('is removed for good with its packages after 14 days, and its name is free', async () => {
    const [old, recent] = [await aPublished(), await aPublished()]
    for (const { remove } of [old, recent]) await remove()
    await old.expire()
    expect(await listDeletedRepositories(t.db, old.group.id, part)).toEqual([])
    await expect(old.restore()).rejects.toThrow(`${old.group.name} has no deleted repository ${old.name}`)
    await removeExpired()
    expect(await countRows(t.db, 'package', { repositoryId: old.repository.id })).toBe(0)
    expect(await countRows(t.db, 'package', { repositoryId: recent.repository.id })).toBe(1)
    await addRepository(t, operator, { groupId: old.group.id, name: old.name, visibility: 'private' })
    await recent.restore()
    await removeExpired()
    const events = await eventsOf(t.db, { action: 'purge-repository' }, ['repositoryId', 'via', 'details'])
    const { id: repositoryId, path } = old.repository
    expect(events).toEqual([{ repositoryId, via: null, details: { path } }])
    const [ofGroup] = await listGroupEvents(t.db, old.group.id, { actions: ['purge-repository'] }, part, null)
    expect(ofGroup).toMatchObject({ repositoryPath: path, actor: null })
  })

  it('stays when it is restored at the last moment, while its removal waits', async () => {
    const { group, repository, name, document, ask, remove, expire } = await aPublished()
    await remove()
    await expire()
    const removal = await transaction(t.db, async (tx) => {
      await changePaths(tx, group.id)
      const started = removeExpired()
      await untilWaiting(t.db)
      // The time of this restoration was before its end.
      await markDeletedNow(tx, repository)
      expect(await unhideRepository(tx, group.id, name)).toBe(repository.id)
      return { started }
    })
    await removal.started
    expect((await ask(document)).statusCode).toBe(200)
  })

  it('keeps its group from being deleted, unless it is deleted for good with it', async () => {
    const { group, repository, remove } = await aPublished()
    await remove()
    const repositories = [repository.path]
    expect(await deleteGroup(t.db, operator, group)).toEqual({ isDeleted: false, repositories })
    const options = { withRepositories: true }
    expect(await deleteGroup(t.db, operator, group, options)).toEqual({ isDeleted: true, repositories })
    expect(await findGroup(t.db, group.name)).toBeNull()
    expect(await countRows(t.db, 'package', { repositoryId: repository.id })).toBe(0)
    const events = await eventsOf(t.db, { repositoryId: repository.id }, ['action', 'via'])
    expect(events.at(-1)).toEqual({ action: 'purge-repository', via: 'command' })
  })
})

describe('POST /api/repositories/<group>/<name>/restore', () => {
  it('restores what GET /api/groups/<group>/deleted-repositories lists, for admins of the group', async () => {
    const published = await aPublished()
    const { group, repository, admin, remove } = published
    const scopes = ['registry-delete:rw']
    const token = await aPersonalToken(t.db, admin, { scopes })
    const deleted = () => callApi(t, token, 'GET', `/api/groups/${group.name}/deleted-repositories`)
    const restore = (secret: string) =>
      callApi(t, secret, 'POST', `/api/repositories/${repository.path}/restore`)
    expect((await restore(token)).json()).toEqual({
      errcode: 5,
      errmsg: `${group.name} has no deleted repository ${published.name}`,
    })
    await remove()
    expect((await deleted()).json()).toEqual([
      { path: repository.path, deleted_at: expect.any(String), restorable_until: expect.any(String) },
    ])
    const developer = await anAccount(t.db)
    await aGroupMember(t.db, developer, group, 'developer')
    const weak = await aPersonalToken(t.db, developer, { scopes })
    expect((await restore(weak)).statusCode).toBe(403)
    const other = await aPersonalToken(t.db, await anAccount(t.db), { scopes })
    expect((await restore(other)).statusCode).toBe(404)
    expect((await restore(token)).json()).toMatchObject({ path: repository.path, role: 'admin' })
    expect((await deleted()).json()).toEqual([])
  })
})

describe('the page of a group', () => {
  it('lists deleted repositories for admins, who restore them', async () => {
    const { group, repository, name, admin, account, remove } = await aPublished()
    const cookie = await signIn(t.app, admin)
    const page = async (who = cookie) => t.app.inject({ url: `/${group.name}`, headers: { cookie: who } })
    expect((await page()).body).not.toContain('Deleted repositories')
    await aGroupMember(t.db, account, group, 'developer')
    await remove()
    const shown = await page()
    expect(shown.body).toContain('Deleted repositories')
    const form = { csrf_token: csrfTokenIn(shown), name }
    const developer = await signIn(t.app, account)
    expect((await page(developer)).body).not.toContain('Deleted repositories')
    const refused = {
      ...form,
      csrf_token: csrfTokenIn(
        await t.app.inject({ url: '/settings/account', headers: { cookie: developer } }),
      ),
    }
    expect((await post(t.app, `/${group.name}/-/restore`, developer, refused)).statusCode).toBe(403)
    const restored = await post(t.app, `/${group.name}/-/restore`, cookie, form)
    expect([restored.statusCode, restored.headers.location]).toEqual([303, `/${repository.path}`])
    expect((await t.app.inject({ url: `/${repository.path}` })).statusCode).toBe(200)
    expect((await post(t.app, `/${group.name}/-/restore`, cookie, form)).statusCode).toBe(404)
  })
})
