import { describe, expect, it } from 'vitest'
import { listSiteAdministrators } from '../../../src/accounts/accounts.ts'
import { operator } from '../../../src/domain/principal.ts'
import { insertEvent } from '../../../src/events/events.ts'
import {
  aDeployToken,
  aGroup,
  aGroupMember,
  aMember,
  anAccount,
  aPersonalToken,
  aRepository,
  signIn,
} from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { aPersonWithTotp } from '../../support/factor-actors.ts'
import { requireSecondFactor } from '../../support/group-rows.ts'
import { revokeDeployTokens } from '../../support/last-use-rows.ts'
import { aMirroredArchive, aMirroredPackage } from '../../support/mirrored-rows.ts'
import { anApplication } from '../../support/oauth-actors.ts'
import { addPackages, markDeleted } from '../../support/package-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { addNumberedRepositories } from '../../support/repository-rows.ts'
import { expire } from '../../support/rows.ts'
import { anUpstream } from '../../support/upstream-rows.ts'

describe('GET /', () => {
  const t = useApp()

  it('offers to sign in', async () => {
    const response = await t.app.inject('/')
    expect(response.statusCode).toBe(200)
    expect(response.body).toContain('href="/login"')
    expect(response.cookies).toEqual([])
  })

  it("lists the account's repositories, through their group too, and no others", async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'guest')
    const ofGroup = await aRepository(t.db, { group, description: 'Ours & <theirs>' })
    const own = await aRepository(t.db)
    await aMember(t.db, account, own, 'admin')
    const foreign = await aRepository(t.db, { visibility: 'public' })
    const cookie = await signIn(t.app, account)
    const { body } = await t.app.inject({ url: '/', headers: { cookie } })
    expect(body).toContain(`href="/${ofGroup.path}"`)
    expect(body).toContain('Ours &amp; &lt;theirs&gt;')
    expect(body).toContain(`href="/${own.path}"`)
    expect(body).not.toContain(foreign.path)
  })

  it('shows the packages and the last release of each group, of the repositories that the account sees', async () => {
    const { account, repository, push } = await aPublisher(t, { role: 'admin' })
    const [group = ''] = repository.path.split('/')
    await push('1.0.0', { name: 'acme/one' })
    await push('1.0.0', { name: 'acme/two' })
    const member = await anAccount(t.db)
    const empty = await aGroup(t.db)
    await aGroupMember(t.db, member, empty, 'admin')
    await aMember(t.db, member, repository, 'guest')
    const groupsOf = async (one: typeof member) => {
      const { body } = await t.app.inject({ url: '/', headers: { cookie: await signIn(t.app, one) } })
      return body.slice(body.indexOf('<h2>Groups</h2>'), body.indexOf('<h2>Recent packages</h2>'))
    }
    expect(await groupsOf(account)).toMatch(
      new RegExp(`href="/${group}".*\\s*<p class="hint">2 packages · last published <time`),
    )
    const ofMember = await groupsOf(member)
    expect(ofMember).toContain(`href="/${empty.name}"`)
    expect(ofMember).not.toContain('0 packages')
  })

  it('shows 50 repositories at once, links to the next ones, and searches all', async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'guest')
    await addNumberedRepositories(t.db, group, 120)
    const cookie = await signIn(t.app, account)
    const open = async (url: string) => {
      const { body } = await t.app.inject({ url, headers: { cookie } })
      const paths = Array.from(
        body.matchAll(/class="title">(?:<img [^>]*>)?<a href="\/([^"]+)"/g),
        ([, path]) => path,
      )
      const next = /<a href="([^"]+)">More repositories/.exec(body)?.[1]?.replaceAll('&amp;', '&')
      return { paths, next, body }
    }
    const names: (string | undefined)[] = []
    const sizes: number[] = []
    for (let url: string | undefined = '/'; url !== undefined; ) {
      const { paths, next } = await open(url)
      names.push(...paths)
      sizes.push(paths.length)
      url = next
    }
    expect(sizes).toEqual([50, 50, 20])
    expect(names).toEqual(names.toSorted((a, b) => String(a).localeCompare(String(b))))
    expect(new Set(names).size).toBe(120)
    expect((await open('/?q=NUMBER+77')).paths).toEqual([`${group.name}/repo077`])
    expect((await open('/?q=repo&after=')).next).toContain('q=repo')
    expect((await open('/?q=nothing')).body).toContain('No repository matches “nothing”.')
    expect((await open(`/?after=${group.name}/repo999`)).body).toContain('Show all repositories')
  })

  const look = async (account: { username: string }) => {
    const cookie = await signIn(t.app, account)
    return (await t.app.inject({ url: '/', headers: { cookie } })).body
  }

  it('counts the packages that are offered, and names the last publish', async () => {
    const { account, repository, push } = await aPublisher(t)
    await push('1.0.0', { name: 'acme/one' })
    await push('1.0.0', { name: 'acme/two' })
    await push('1.0.0', { name: 'acme/gone' })
    await markDeleted(t.db, repository, { name: 'acme/gone' })
    const body = await look(account)
    expect(body).toMatch(/>2 packages · last published <time /)
    const names = Array.from({ length: 1100 }, (_, i) => `many/p${i}`)
    await addPackages(t.db, repository, names)
    expect(await look(account)).toContain('>1,000+ packages · last published')
  })

  it('says that a repository without packages has none', async () => {
    const { account } = await aPublisher(t)
    const body = await look(account)
    expect(body).toContain('0 packages')
    expect(body).not.toContain('last published')
  })

  it('shows events of packages, but not of settings or of other repositories', async () => {
    const { account, push, repository } = await aPublisher(t)
    await push('1.0.0', { name: 'acme/news' })
    await insertEvent(t.db, operator, {
      repositoryId: repository.id,
      action: 'set-member',
      details: { username: 'new-member' },
    })
    const other = await aPublisher(t)
    await other.push('1.0.0', { name: 'other/news' })
    const body = await look(account)
    expect(body).toMatch(
      new RegExp(`<strong>${account.username}</strong> published <a [^>]+>acme/news</a> <code>1.0.0</code>`),
    )
    expect(body).not.toContain('new-member')
    expect(body).not.toContain('other/news')
    const admin = await look(await anAccount(t.db, { isAdmin: true }))
    expect(admin).toContain('acme/news')
    expect(admin).toContain('other/news')
  })

  it('lists groups with the role', async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'developer')
    expect(await look(account)).toContain(
      `<a href="/${group.name}">${group.name}</a> <span class="badge">developer`,
    )
  })

  it('warns of tokens that expire soon or expired lately, and of no others', async () => {
    const account = await anAccount(t.db)
    for (const [name, days] of [
      ['soon', 3],
      ['later', 60],
    ] as const) {
      await aPersonalToken(t.db, account, { name, expiry: { inDays: days } })
    }
    for (const [name, days] of [
      ['lately', 3],
      ['long-ago', 60],
    ] as const) {
      await aPersonalToken(t.db, account, { name })
      await expire(t.db, 'personal_token', { accountId: account.id, name }, `${days} days`)
    }
    const warnings = [...(await look(account)).matchAll(/Your token <a [^>]+>([\w-]+)<\/a> (\w+)/g)]
    expect(warnings.map(([, name, state]) => `${name} ${state}`)).toEqual(['lately expired', 'soon expires'])
  })

  it('warns admins of a group of its deploy tokens that expire soon or expired lately', async () => {
    const [admin, developer] = [await anAccount(t.db), await anAccount(t.db)]
    const group = await aGroup(t.db)
    await aGroupMember(t.db, admin, group, 'admin')
    await aGroupMember(t.db, developer, group, 'developer')
    for (const name of ['soon', 'later', 'lately', 'revoked']) {
      await aDeployToken(t.db, group, { name, madeBy: admin })
    }
    for (const [name, ago] of [
      ['soon', '-3 days'],
      ['later', '-60 days'],
      ['lately', '1 day'],
      ['revoked', '-3 days'],
    ])
      await expire(t.db, 'deploy_token', { groupId: group.id, name }, ago)
    await revokeDeployTokens(t.db, group, 'revoked')
    const warned = async (account: typeof admin) =>
      [
        ...(await look(account)).matchAll(
          /The deploy token <a href="([^"]+)">([\w-]+)<\/a> of [\w-]+ (\w+)/g,
        ),
      ].map(([, ...words]) => words.join(' '))
    const url = `/${group.name}/-/deploy-tokens`
    expect(await warned(admin)).toEqual([`${url} lately expired`, `${url} soon expires`])
    expect(await warned(developer)).toEqual([])
  })

  it('tells the admins of a repository what waits for them, and nobody else', async () => {
    const [admin, developer] = [await aPersonWithTotp(t), await anAccount(t.db)]
    const developersCookie = await signIn(t.app, developer)
    const group = await aGroup(t.db)
    const repository = await aRepository(t.db, { group })
    await aGroupMember(t.db, admin, group, 'admin')
    await aGroupMember(t.db, developer, group, 'developer')
    const upstreamId = await anUpstream(t.db, repository, { name: 'one', url: 'https://one.example.com' })
    const home = async (cookie: string) => (await t.app.inject({ url: '/', headers: { cookie } })).body
    expect(await home(admin.cookie)).not.toContain('Needs attention')
    await aMirroredPackage(t.db, repository, ['acme/first', 'acme/second'], { isRequested: true })
    await aMirroredPackage(t.db, repository, 'acme/moved', { upstreamId, isSeen: true })
    await aMirroredArchive(t.db, 'acme/moved', { version: '1.0.0', alarm: 'changed' })
    const needs = async (cookie: string) => {
      const [, list = ''] =
        /id="needs">Needs attention<\/h2>([\s\S]*?)<\/section>/.exec(await home(cookie)) ?? []
      return [...list.matchAll(/<a href="([^"]+)">([^<]+)</g)].map(([, url, words]) => `${url} ${words}`)
    }
    const url = `/${repository.path}/-/upstreams`
    expect(await needs(admin.cookie)).toEqual([
      `${url} 2 packages of ${repository.path} wait for approval`,
      `${url} 1 package of ${repository.path} has an archive that changed at the upstream`,
    ])
    expect(await needs(developersCookie)).toEqual([])
    const site = await t.app.inject({
      url: '/admin',
      headers: { cookie: await signIn(t.app, await anAccount(t.db, { isAdmin: true })) },
    })
    expect(site.body).toContain(`2 packages of ${repository.path} wait for approval`)

    await requireSecondFactor(t.db, group)
    expect((await needs(admin.cookie)).at(-1)).toBe(
      `/${group.name}/-/settings/second-factor 1 member of ${group.name} has no role until they set up a second factor`,
    )
  })

  it('tells site administrators which applications wait for review, and nobody else', async () => {
    await anApplication(t.db, { status: 'pending' })
    const words = '1 application waits for review'
    expect(await look(await anAccount(t.db, { isAdmin: true }))).toContain(
      `<a href="/admin/applications?state=pending">${words}</a>`,
    )
    expect(await look(await anAccount(t.db))).not.toContain(words)
  })

  it('shows the first steps, and whom to ask, to somebody who has nothing', async () => {
    const account = await anAccount(t.db)
    const [administrator] = await listSiteAdministrators(t.db, 1)
    const body = await look(account)
    expect(body).toContain('First steps')
    expect(body).toMatch(new RegExp(`ask a site administrator: [^<]*${administrator}`))
    expect(body).toContain('href="/new/group"')
    expect(body).toContain('href="/settings/tokens/new?preset=pull"')
  })

  it('offers a new repository only to people who may create one', async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'developer')
    const developer = await look(account)
    expect(developer).toContain('href="/new/group"')
    expect(developer).not.toContain('/new/repository')
    expect(developer).toContain('Their admins can create one.')
    const other = await aGroup(t.db)
    await aGroupMember(t.db, account, other, 'admin')
    expect(await look(account)).toContain('class="button small" href="/new/repository"')
    expect(await look(await anAccount(t.db, { isAdmin: true }))).toContain('href="/new/repository"')
  })

  it('shows no first steps to somebody with a repository and a token', async () => {
    const { account } = await aPublisher(t)
    expect(await look(account)).not.toContain('First steps')
  })
})
