import { describe, expect, it } from 'vitest'
import { findAccountDetails } from '../../../../src/accounts/accounts.ts'
import { findVerification } from '../../../../src/accounts/email-verifications.ts'
import { findResetAccount } from '../../../../src/accounts/password-resets.ts'
import { runDueJobs } from '../../../../src/jobs/run-jobs.ts'
import { renderOutdatedJob } from '../../../../src/packages/documents/rerender.ts'
import { openLog } from '../../../../src/web/server/log.ts'
import { verifyEmail } from '../../../support/account-rows.ts'
import {
  aGroup,
  aGroupMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  cookiesOf,
  post,
  signIn,
} from '../../../support/actors.ts'
import { anAdministrator } from '../../../support/admin-actors.ts'
import { useApp } from '../../../support/app.ts'
import { open } from '../../../support/browse.ts'
import { eventsOf } from '../../../support/event-rows.ts'
import { membersOf, storedGroup } from '../../../support/group-rows.ts'
import { aPublisher } from '../../../support/registry-actors.ts'

const t = useApp()

async function anEditor() {
  const { account, cookie, csrf_token } = await anAdministrator(t)
  const send = (url: string, form: Record<string, string> = {}) =>
    post(t.app, url, cookie, { csrf_token, ...form })
  return { account, cookie, send }
}

describe('/admin/accounts/<username>', () => {
  it('changes username, name and email; a new email is not verified, the same one stays so', async () => {
    const { account: admin, send } = await anEditor()
    const { id, username } = await anAccount(t.db, { email: `${aName('old')}@example.com` })
    await verifyEmail(t.db, { id })
    const { email } = (await findAccountDetails(t.db, username)) ?? {}
    const renamed = aName('renamed')
    const form = { username: renamed, display_name: 'Ann Lee', email: email ?? '' }
    const changed = await send(`/admin/accounts/${username}/details`, form)
    expect([changed.statusCode, changed.headers.location]).toEqual([303, `/admin/accounts/${renamed}`])
    expect(await findAccountDetails(t.db, renamed)).toMatchObject({
      displayName: 'Ann Lee',
      emailVerifiedAt: expect.any(Date),
    })
    await send(`/admin/accounts/${renamed}/details`, { ...form, email: `${renamed}@example.com` })
    expect(await findAccountDetails(t.db, renamed)).toMatchObject({
      email: `${renamed}@example.com`,
      emailVerifiedAt: null,
    })
    await send(`/admin/accounts/${renamed}/details`, { ...form, email: '' })
    expect((await findAccountDetails(t.db, renamed))?.email).toBeNull()
    const taken = await send(`/admin/accounts/${renamed}/details`, { ...form, username: admin.username })
    expect([taken.statusCode, taken.body.includes('This username is taken.')]).toEqual([400, true])
    // The form keeps what was entered.
    expect(taken.body).toContain(`name="username" value="${admin.username}"`)
    expect(taken.body).toContain(`name="email" type="email" value="${email}"`)
    const changes = { accountId: id, action: ['account-renamed', 'email-changed'] }
    const actors = (await eventsOf(t.db, changes, ['actorId'])).map(({ actorId }) => actorId)
    expect(new Set(actors)).toEqual(new Set([admin.id]))
  })

  it('creates a password reset link, ends sessions, and revokes tokens', async () => {
    const { send } = await anEditor()
    const { id, username } = await anAccount(t.db)
    const theirs = await signIn(t.app, { username })
    const url = `/admin/accounts/${username}`
    const link = await send(`${url}/reset-link`)
    const token = /password-reset\?token=([\w-]{43})/.exec(link.body)?.[1] ?? ''
    expect(await findResetAccount(t.db, token)).toEqual({ id, username })
    expect((await open(t, '/settings/account', theirs)).statusCode).toBe(200)
    await send(url, { act: 'end-sessions' })
    expect((await open(t, '/settings/account', theirs)).statusCode).toBe(303)
    const authorization = `Bearer ${await aPersonalToken(t.db, { id }, { scopes: ['account-profile:r'] })}`
    const user = async () => (await t.app.inject({ url: '/api/user', headers: { authorization } })).statusCode
    expect(await user()).toBe(200)
    await send(url, { act: 'revoke-all' })
    expect(await user()).toBe(401)
    await send(url, { act: 'disable' })
    expect((await send(`${url}/reset-link`)).statusCode).toBe(409)
  })

  it('makes a link that verifies the email', async () => {
    const { send } = await anEditor()
    const { username } = await anAccount(t.db, { email: `${aName('ann')}@example.com` })
    const link = await send(`/admin/accounts/${username}/verification-link`)
    const token = /email-verification\?token=([\w-]{43})/.exec(link.body)?.[1] ?? ''
    expect(await findVerification(t.db, token)).toMatchObject({ username })
    const without = await anAccount(t.db)
    expect((await send(`/admin/accounts/${without.username}/verification-link`)).statusCode).toBe(409)
  })

  it('deletes an account after its username is typed, and asks what happens to its groups', async () => {
    const { account: admin, send } = await anEditor()
    const { id, username } = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, { id }, group, 'admin')
    const url = `/admin/accounts/${username}/delete`
    expect((await send(url, { confirmed: 'other' })).statusCode).toBe(400)
    const asked = await send(url, { confirmed: username })
    expect([asked.statusCode, asked.body.includes(`only admin of ${group.name}`)]).toEqual([409, true])
    expect((await send(url, { confirmed: username, groups_to: 'nobody-at-all' })).statusCode).toBe(400)
    expect((await send(url, { confirmed: username, groups_to: admin.username })).statusCode).toBe(303)
    expect(await findAccountDetails(t.db, username)).toBeNull()
    expect(await membersOf(t.db, group)).toMatchObject([{ accountId: admin.id }])
    const own = await send(`/admin/accounts/${admin.username}/delete`, { confirmed: admin.username })
    expect(own.statusCode).toBe(409)
  })
})

describe('/admin/groups', () => {
  it('finds groups by name', async () => {
    const { cookie } = await anEditor()
    const [found, other] = [await aGroup(t.db, aName('needle')), await aGroup(t.db)]
    const { body } = await open(t, '/admin/groups?q=NEEDLE', cookie)
    expect(body).toContain(found.name)
    expect(body).not.toContain(other.name)
    expect((await open(t, '/admin/groups?q=nothing-like-it', cookie)).body).toContain(
      'No group matches “nothing-like-it”.',
    )
  })

  it('renames a group; its documents get the new URLs from a job', async () => {
    const { cookie, send } = await anEditor()
    const { push, repository, authorization } = await aPublisher(t)
    await push('1.0.0')
    const [name = '', repositoryName = ''] = repository.path.split('/')
    const taken = await aGroup(t.db)
    for (const form of ['rename', 'delete']) {
      const link = `/admin/groups/${form}?group=${name}`
      expect((await open(t, `/admin/groups?group=${name}`, cookie)).body).toContain(`href="${link}"`)
      expect((await open(t, link, cookie)).body).toContain(`action="/admin/groups/${form}"`)
    }
    const refused = await send('/admin/groups/rename', { group: name, name: taken.name })
    expect([refused.statusCode, refused.body.includes('A group with this name already exists')]).toEqual([
      400,
      true,
    ])
    const newName = aName('renamed')
    const renamed = await send('/admin/groups/rename', { group: name, name: newName })
    expect(renamed.headers.location).toBe(`/admin/groups?group=${newName}`)
    const page = await open(t, `/admin/groups?group=${newName}`, `${cookie}; ${cookiesOf(renamed)}`)
    expect(page.body).toContain(`The group ${name} is now ${newName}.`)
    await runDueJobs({ config: t.config, db: t.db }, [renderOutdatedJob], openLog('silent'))
    const url = `/${newName}/${repositoryName}/-/packages/p2/acme/lib.json`
    const document = await t.app.inject({ url, headers: { authorization } })
    expect(document.json().packages['acme/lib'][0].dist.url).toContain(`/${newName}/${repositoryName}/`)
    expect((await send('/admin/groups/rename', { group: name, name: 'x' })).statusCode).toBe(404)
  })

  it('deletes a group after its name is typed, and its repositories only when requested', async () => {
    const { send } = await anEditor()
    const { group } = await aRepository(t.db)
    const url = '/admin/groups/delete'
    expect((await send(url, { group: group.name, confirmed: 'other' })).statusCode).toBe(400)
    const refused = await send(url, { group: group.name, confirmed: group.name })
    expect([refused.statusCode, refused.body.includes('the group has 1 repository')]).toEqual([409, true])
    const form = { group: group.name, confirmed: group.name, with_repositories: 'yes' }
    expect((await send(url, form)).statusCode).toBe(303)
    expect(await storedGroup(t.db, group.name)).toBeUndefined()
    expect((await send(url, form)).statusCode).toBe(404)
  })

  it('lists all repositories at /admin/repositories, by path and description, page by page', async () => {
    const { cookie } = await anEditor()
    const group = await aGroup(t.db, aName('many'))
    const paths = Array.from({ length: 51 }, (_, i) => `repo-${String(i).padStart(2, '0')}`)
    for (const name of paths) {
      const description = name === 'repo-07' ? 'Über <Alles>' : ''
      await aRepository(t.db, { group, name, description })
    }
    const first = await open(t, `/admin/repositories?q=${group.name.toUpperCase()}%2Frepo`, cookie)
    expect(first.body).toContain(`href="/${group.name}/repo-00/-/settings"`)
    expect(first.body).not.toContain(`${group.name}/repo-50`)
    const next = /href="(\/admin\/repositories\?q=[^"]+after=[^"]+)"/.exec(first.body)?.[1] ?? ''
    const second = await open(t, next.replaceAll('&amp;', '&'), cookie)
    expect(second.body).toContain(`href="/${group.name}/repo-50"`)
    expect(second.body).not.toContain(`${group.name}/repo-49`)
    const described = await open(t, `/admin/repositories?q=${encodeURIComponent('über <a')}`, cookie)
    expect(described.body).toContain('Über &lt;Alles&gt;')
    expect(described.body).not.toContain(`${group.name}/repo-08`)
    expect((await open(t, '/admin/repositories?q=nothing-like-it', cookie)).body).toContain(
      'No repository matches “nothing-like-it”.',
    )
    const other = await signIn(t.app, await anAccount(t.db))
    expect((await open(t, '/admin/repositories', other)).statusCode).toBe(404)
  })

  it('lists only public or only private repositories, also with a search and on the next page', async () => {
    const { cookie } = await anEditor()
    const group = await aGroup(t.db, aName('seen'))
    for (let n = 10; n < 61; n += 1)
      await aRepository(t.db, { group, name: `open-${n}`, visibility: 'public' })
    await aRepository(t.db, { group, name: 'closed' })
    const at = async (query: string) => (await open(t, `/admin/repositories?${query}`, cookie)).body
    const closed = await at(`q=${group.name}&visibility=private`)
    expect(closed).toContain(`href="/${group.name}/closed"`)
    expect(closed).not.toContain(`${group.name}/open-`)
    expect(closed).toContain('<input type="hidden" name="visibility" value="private">')
    const first = await at(`q=${group.name}&visibility=public`)
    expect(first).not.toContain(`href="/${group.name}/closed"`)
    const [, next = ''] = /href="\/admin\/repositories\?([^"]+after=[^"]+)"/.exec(first) ?? []
    const second = await at(next.replaceAll('&amp;', '&'))
    expect(second.match(/<h2 class="title"><a href="[^"]+"/g)).toEqual([
      `<h2 class="title"><a href="/${group.name}/open-60"`,
    ])
  })

  it('is for site administrators only, as are the changes of accounts', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'admin')
    for (const url of [
      '/admin/groups/rename',
      '/admin/groups/delete',
      ...['details', 'reset-link', 'delete'].map((act) => `/admin/accounts/${account.username}/${act}`),
    ]) {
      const form = { group: group.name, name: 'x', confirmed: group.name, username: 'x' }
      expect([url, (await post(t.app, url, cookie, form)).statusCode]).toEqual([url, 404])
    }
  })
})
