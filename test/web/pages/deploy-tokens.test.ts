import { describe, expect, it } from 'vitest'
import { setProofAge } from '../../support/account-rows.ts'
import {
  aDeployToken,
  aGroupMember,
  aMember,
  anAccount,
  aRepository,
  csrfTokenIn,
  post,
  signIn,
} from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { basic } from '../../support/registry-actors.ts'
import { listDeployTokenIds } from '../../support/token-rows.ts'

const t = useApp()

async function aVisitor() {
  const account = await anAccount(t.db)
  const cookie = await signIn(t.app, account)
  const open = (url: string) => t.app.inject({ url, headers: { cookie } })
  const csrf_token = csrfTokenIn(await open('/settings/account'))
  const send = (url: string, form: Record<string, string | string[]>) =>
    post(t.app, url, cookie, { csrf_token, ...form })
  return { account, open, send }
}

async function aGroupAdmin() {
  const visitor = await aVisitor()
  const repository = await aRepository(t.db)
  await aGroupMember(t.db, visitor.account, repository.group, 'admin')
  return { ...visitor, repository, url: `/${repository.group.name}/-/deploy-tokens` }
}

const tokenIn = (body: string) => /svcd_[0-9A-Za-z]{49}/.exec(body)?.[0] ?? ''
const pull = async (path: string, token: string) =>
  (
    await t.app.inject({
      url: `/${path}/-/packages/packages.json`,
      headers: { authorization: basic(token) },
    })
  ).statusCode

describe('/<group>/-/deploy-tokens', () => {
  it('makes a token, shows it once, lists it, and revokes it after a confirmation', async () => {
    const { account, open, send, repository, url } = await aGroupAdmin()
    const sister = await aRepository(t.db, { group: repository.group })
    const name = repository.path.split('/')[1] ?? ''
    const made = await send(url, {
      name: 'build server',
      right: 'publish',
      repository: name,
      lifetime_in_days: '30',
    })
    expect(made.statusCode).toBe(200)
    expect(made.headers['cache-control']).toContain('no-store')
    const token = tokenIn(made.body)
    expect([await pull(repository.path, token), await pull(sister.path, token)]).toEqual([200, 404])
    const listed = await open(url)
    expect(listed.body).toContain('build server')
    expect(listed.body).toContain(`by ${account.username}`)
    expect(tokenIn(listed.body)).toBe('')
    const link = /href="([^"]*\/revoke\?id=\d+)"/.exec(listed.body)?.[1] ?? ''
    const question = await open(link)
    expect(question.body).toContain('Revoke the deploy token build server?')
    const id = new URL(link, 'http://svc.test').searchParams.get('id') ?? ''
    expect((await send(`${url}/revoke`, { id })).statusCode).toBe(303)
    expect(await pull(repository.path, token)).toBe(401)
    expect((await send(`${url}/revoke`, { id })).statusCode).toBe(404)
    const activity = await open(`/${repository.path}/-/activity`)
    expect(activity.body).toContain('Created a deploy token</strong> <span class="muted">build server')
    expect(activity.body).toContain('Revoked a deploy token</strong> <span class="muted">build server')
  })

  it('asks for a proof again before it makes a token, 15 minutes after the last one', async () => {
    const { account, send, repository, url } = await aGroupAdmin()
    await setProofAge(t.db, account, '16 minutes')
    const asked = await send(url, {
      name: 'ci',
      right: 'publish',
      resource_scope: 'all',
      lifetime_in_days: '7',
    })
    expect([asked.statusCode, String(asked.headers.location)]).toEqual([
      303,
      expect.stringMatching(/^\/settings\/confirm-access\?/),
    ])
    expect(await listDeployTokenIds(t.db, repository.group)).toEqual([])
    // Every token of a group needs one.
    const reading = { name: 'ci', resource_scope: 'all', lifetime_in_days: '7' }
    expect((await send(url, reading)).statusCode).toBe(303)
    await setProofAge(t.db, account, '0')
    expect((await send(url, reading)).statusCode).toBe(200)
  })

  it('makes a token for every repository, including later ones', async () => {
    const { send, repository, url } = await aGroupAdmin()
    const made = await send(url, { name: 'all', right: 'read', resource_scope: 'all', lifetime_in_days: '7' })
    const later = await aRepository(t.db, { group: repository.group })
    expect(await pull(later.path, tokenIn(made.body))).toBe(200)
  })

  it.each([
    ['no name', { name: ' ' }, 'Give the token a name'],
    ['no repository', {}, 'Choose at least one repository'],
    ['an unknown repository', { repository: 'nothing' }, 'no repository “nothing”'],
    [
      'repositories beside all of them',
      { resource_scope: 'all', repository: 'x' },
      'You selected repositories',
    ],
    [
      'a date in the past',
      { resource_scope: 'all', lifetime_in_days: 'date', expires_on: '2001-01-01' },
      'The date is in the past',
    ],
    ['no lifetime', { resource_scope: 'all', lifetime_in_days: '12345' }, 'Choose when the token expires'],
    [
      'a name that is taken',
      { resource_scope: 'all', name: 'taken' },
      'already has a deploy token with this name',
    ],
  ])('refuses %s, and keeps the form', async (_what, form, problem) => {
    const { send, repository, url } = await aGroupAdmin()
    await aDeployToken(t.db, repository.group, { name: 'taken' })
    const refused = await send(url, { name: 'ci', right: 'read', lifetime_in_days: '7', ...form })
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain(problem)
    expect(await listDeployTokenIds(t.db, repository.group)).toHaveLength(1)
  })

  it('is for admins of the group only', async () => {
    const { account, open, send } = await aVisitor()
    const repository = await aRepository(t.db)
    const url = `/${repository.group.name}/-/deploy-tokens`
    expect((await open(url)).statusCode).toBe(404)
    await aGroupMember(t.db, account, repository.group, 'developer')
    expect((await open(url)).statusCode).toBe(403)
    expect((await send(url, { name: 'x', resource_scope: 'all', lifetime_in_days: '7' })).statusCode).toBe(
      403,
    )
    expect((await t.app.inject(url)).statusCode).toBe(303)
  })
})

describe('/<group>/<name>/-/deploy-tokens', () => {
  it('lets an admin of one repository make and revoke tokens for this repository alone', async () => {
    const { account, open, send } = await aVisitor()
    const repository = await aRepository(t.db)
    const sister = await aRepository(t.db, { group: repository.group })
    await aMember(t.db, account, repository, 'admin')
    await aDeployToken(t.db, repository.group, { name: 'everywhere' })
    await aDeployToken(t.db, repository.group, { name: 'both', repositories: [repository, sister] })
    await aDeployToken(t.db, repository.group, { name: 'elsewhere', repositories: [sister] })
    const url = `/${repository.path}/-/deploy-tokens`
    const made = await send(url, {
      name: 'mine',
      right: 'read',
      resource_scope: 'all',
      lifetime_in_days: '7',
    })
    const token = tokenIn(made.body)
    expect([await pull(repository.path, token), await pull(sister.path, token)]).toEqual([200, 404])
    const { body } = await open(url)
    for (const name of ['everywhere', 'both', 'mine']) expect(body).toContain(name)
    expect(body).not.toContain('elsewhere')
    expect(body.match(/\/revoke\?id=/g)).toHaveLength(1)
    const own = /\/revoke\?id=(\d+)/.exec(body)?.[1] ?? ''
    for (const id of await listDeployTokenIds(t.db, repository.group))
      if (id !== own) expect((await send(`${url}/revoke`, { id })).statusCode).toBe(404)
    expect((await send(`${url}/revoke`, { id: own })).statusCode).toBe(303)
    expect(await pull(repository.path, token)).toBe(401)
    expect((await open(`/${repository.group.name}/-/deploy-tokens`)).statusCode).toBe(403)
  })

  it('names no private repositories that the admin of one repository may not see', async () => {
    const { account, open } = await aVisitor()
    const repository = await aRepository(t.db)
    const { group } = repository
    await aMember(t.db, account, repository, 'admin')
    const secret = await aRepository(t.db, { group })
    const known = await aRepository(t.db, { group, visibility: 'public' })
    await aDeployToken(t.db, group, { name: 'several', repositories: [repository, secret, known] })
    await aDeployToken(t.db, group, { name: 'unrelated', repositories: [secret] })
    const url = `/${repository.path}/-/deploy-tokens`
    const { body } = await open(url)
    const named = [...[repository.path, known.path].toSorted(), '1 other'].map((name) => `<li>${name}</li>`)
    expect(body).toContain(named.join(''))
    const pages = [body, (await open(`/${repository.path}/-/activity`)).body]
    for (const id of await listDeployTokenIds(t.db, group)) {
      const question = await open(`${url}/revoke?id=${id}`)
      expect(question.statusCode).toBe(404)
      pages.push(question.body)
    }
    for (const page of pages) {
      expect(page).not.toContain(secret.path)
      expect(page).not.toContain('unrelated')
    }
    // A member of the group sees all of its repositories.
    await aGroupMember(t.db, account, group, 'guest')
    expect((await open(url)).body).toContain(secret.path)
  })
})
