import { describe, expect, it } from 'vitest'
import { listPersonalTokens } from '../../src/accounts/personal-tokens.ts'
import { enforcedScopes } from '../../src/domain/permissions.ts'
import { coversAll } from '../../src/domain/scopes.ts'
import { kindOfSecret } from '../../src/domain/secrets.ts'
import {
  aMember,
  anAccount,
  aPersonalToken,
  aRepository,
  csrfTokenIn,
  post,
  signIn,
} from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { addRepositories } from '../support/group-rows.ts'
import { addPersonalTokens, liveTokenOf } from '../support/token-rows.ts'

const dayMilliseconds = 86_400_000

describe('/settings/tokens', () => {
  const t = useApp({ BASE_URL: 'http://svc.test:8080' })

  /** A signed-in browser with the page open, and a form that can be sent. */
  async function anOpenPage(query = '') {
    const account = await anAccount(t.db)
    const repository = await aRepository(t.db)
    await aMember(t.db, account, repository, 'developer')
    const cookie = await signIn(t.app, account)
    const url = `/settings/tokens/new${query.replace('REPOSITORY', repository.path)}`
    const page = await t.app.inject({ url, headers: { cookie } })
    const fields = {
      csrf_token: csrfTokenIn(page),
      name: 'Build server',
      lifetime_in_days: '30',
      scope: ['registry-package:r'],
      resource_scope: 'all',
    }
    return { account, repository, cookie, page, fields }
  }

  const make = (cookie: string, fields: Record<string, string | string[]>) =>
    post(t.app, '/settings/tokens/new', cookie, fields)

  it('offers 50 repositories, and finds the others by a search that keeps the entered values', async () => {
    const { account, repository, cookie, fields } = await anOpenPage()
    await addRepositories(t.db, repository, 200, account)
    const offered = (body: string) =>
      Array.from(body.matchAll(/name="repository" value="([^"]+)"( checked)?/g), ([, path, checked]) => [
        path,
        !!checked,
      ])
    const page = await t.app.inject({ url: '/settings/tokens/new', headers: { cookie } })
    expect(offered(page.body)).toHaveLength(50)
    const [group = ''] = repository.path.split('/')
    const search = {
      ...fields,
      resource_scope: 'specified',
      repository: repository.path,
      search: 'repo177',
      action: 'search',
    }
    const found = await make(cookie, search)
    expect(found.statusCode).toBe(200)
    expect(offered(found.body)).toEqual([
      [repository.path, true],
      [`${group}/repo177`, false],
    ])
    expect(found.body).toContain('value="Build server"')
    expect(await listPersonalTokens(t.db, account.id)).toEqual([])
    const { action: _action, ...rest } = search
    await make(cookie, { ...rest, repository: [repository.path, `${group}/repo177`] })
    const [token] = await listPersonalTokens(t.db, account.id)
    expect(token?.repositories).toEqual([repository.path, `${group}/repo177`].toSorted())
  })

  it('shows 50 tokens at once, the newest first, and links to the older ones', async () => {
    const { account, cookie } = await anOpenPage()
    await addPersonalTokens(t.db, account, 70)
    const open = async (url: string) => (await t.app.inject({ url, headers: { cookie } })).body
    const names = (body: string) =>
      Array.from(body.matchAll(/<th scope="row">token number (\d+)</g), ([, number]) => Number(number))
    const first = await open('/settings/tokens')
    const next = /<a href="(\/settings\/tokens\?after=\d+)">Older tokens/.exec(first)?.[1] ?? ''
    const second = await open(next)
    expect([...names(first), ...names(second)]).toEqual(Array.from({ length: 70 }, (_, i) => 70 - i))
    expect(names(first)).toHaveLength(50)
    expect(second).not.toContain('Older tokens')
  })

  it('makes a token and shows it once, with lines to paste for netrc and Composer (SPEC 4.5, 4.6)', async () => {
    const { account, cookie, fields } = await anOpenPage()
    const response = await make(cookie, fields)
    expect(response.statusCode).toBe(200)
    const token = /<code id="token">([^<]+)</.exec(response.body)?.[1] as string
    expect(kindOfSecret(token)).toBe('personal')
    expect(response.body).toContain(`composer config -g http-basic.svc.test:8080 svc ${token}`)
    expect(response.body).toContain(`machine svc.test\nlogin svc\npassword ${token}`)
    expect(await liveTokenOf(t.db, token)).toEqual({
      accountId: account.id,
      scopes: ['registry-package:r'],
      resourceScope: 'all',
      repositoryIds: [],
    })
    const list = await t.app.inject({ url: '/settings/tokens', headers: { cookie } })
    expect(list.body).toContain('Build server')
    expect(list.body).not.toContain(token)
  })

  it('hides permissions that only other services check', async () => {
    const { body } = (await anOpenPage()).page
    const [own = '', others = ''] = body.split('<summary>For other services ')
    expect(own).toContain('value="registry-package:rw"')
    expect(own).not.toContain('value="repo-code:rw"')
    expect(others).toContain('value="repo-code:rw"')
    expect(body.match(/name="scope" value="repo-code:rw"/g)).toHaveLength(1)
    expect(own).toMatch(/<details>\s+$/)
  })

  it('asks once before a token is revoked', async () => {
    const { account, cookie, fields } = await anOpenPage()
    await make(cookie, fields)
    const [token] = await listPersonalTokens(t.db, account.id)
    const url = `/settings/tokens/revoke?id=${token?.id}`
    const question = await t.app.inject({ url, headers: { cookie } })
    expect(question.body).toContain(`Revoke the token ${token?.name}?`)
    expect(question.body).toContain('action="/settings/tokens/revoke"')
    expect(await listPersonalTokens(t.db, account.id)).toHaveLength(1)
    const other = await anOpenPage()
    expect((await t.app.inject({ url, headers: { cookie: other.cookie } })).statusCode).toBe(404)
  })

  it('makes invisible characters of a name visible', async () => {
    const { cookie, fields } = await anOpenPage()
    await make(cookie, { ...fields, name: 'build\u200bserver' })
    const { body } = await t.app.inject({ url: '/settings/tokens', headers: { cookie } })
    expect(body).toContain('<th scope="row">build[U+200B]server</th>')
  })

  it.each([
    ['7 days', { lifetime_in_days: '7' }, 7],
    ['a year', { lifetime_in_days: '365' }, 365],
    [
      'a date, to its end',
      { lifetime_in_days: 'date', expires_on: '2999-12-31' },
      '2999-12-31T23:59:59.000Z',
    ],
    ['no end, knowingly', { lifetime_in_days: 'never' }, null],
  ])('ends a token after %s', async (_what, difference, end) => {
    const { account, cookie, fields } = await anOpenPage()
    await make(cookie, { ...fields, ...difference })
    const [token] = await listPersonalTokens(t.db, account.id)
    const { createdAt, expiresAt } = token as { createdAt: Date; expiresAt: Date | null }
    const days = expiresAt && (expiresAt.getTime() - createdAt.getTime()) / dayMilliseconds
    expect(typeof end === 'string' ? expiresAt?.toISOString() : days).toBe(end)
  })

  it('makes a token for chosen repositories only', async () => {
    const { account, repository, cookie, fields } = await anOpenPage()
    const page = await make(cookie, { ...fields, resource_scope: 'specified', repository: repository.path })
    expect(page.body).toContain(`href="/${repository.path}/-/setup">Go on with Set up`)
    expect(await listPersonalTokens(t.db, account.id)).toMatchObject([
      { resourceScope: 'specified', repositories: [repository.path] },
    ])
  })

  it('leads to no Set up from a token for more than one repository', async () => {
    const { cookie, fields } = await anOpenPage()
    expect((await make(cookie, fields)).body).not.toContain('/-/setup')
  })

  it('keeps the wider one of a read and a read-write permission', async () => {
    const { account, cookie, fields } = await anOpenPage()
    await make(cookie, { ...fields, scope: ['registry-package:r', 'registry-package:rw', 'account-email:r'] })
    const [token] = await listPersonalTokens(t.db, account.id)
    expect(token?.scopes).toEqual(['registry-package:rw', 'account-email:r'])
  })

  it.each([
    ['no name', { name: ' ' }, 'Give the token a name'],
    ['a name of more than 100 characters', { name: 'a'.repeat(101) }, 'Give the token a name'],
    ['a name that moves the cursor', { name: 'laptop\u001b[2J' }, 'without control characters'],
    ['no permission', { scope: [] }, 'at least one permission'],
    ['an unknown permission', { scope: ['registry-package:x'] }, 'does not exist'],
    ['no resource scope', { resource_scope: '' }, 'which repositories'],
    ['none of the repositories it is for', { resource_scope: 'specified' }, 'at least one repository'],
    ['a repository of others', { resource_scope: 'specified', repository: 'acme/secret' }, 'at least one'],
    ['no end', { lifetime_in_days: '' }, 'when the token expires'],
    ['an unknown lifetime', { lifetime_in_days: '100000' }, 'when the token expires'],
    ['a date that is none', { lifetime_in_days: 'date', expires_on: '2999-02-31' }, 'not valid'],
    ['a date in the past', { lifetime_in_days: 'date', expires_on: '2020-01-01' }, 'in the past'],
    ['a date that it did not choose', { expires_on: '2999-12-31' }, 'Also choose “on a date”'],
    ['a date and none', { lifetime_in_days: 'never', expires_on: '2999-12-31' }, 'clear the date'],
    ['an empty date', { lifetime_in_days: 'date' }, 'not valid'],
  ])('creates none with %s, and keeps the entered values', async (_what, difference, words) => {
    const { account, cookie, fields } = await anOpenPage()
    const response = await make(cookie, { ...fields, ...difference })
    expect(response.statusCode).toBe(400)
    expect(response.body).toContain(words)
    expect(response.body).toContain('name="lifetime_in_days"')
    expect(await listPersonalTokens(t.db, account.id)).toEqual([])
  })

  it('makes no token for more repositories than the selected ones', async () => {
    const { account, repository, cookie, fields } = await anOpenPage()
    const response = await make(cookie, { ...fields, repository: repository.path })
    expect(response.statusCode).toBe(400)
    expect(await listPersonalTokens(t.db, account.id)).toEqual([])
  })

  it('rejects a name that is taken', async () => {
    const { cookie, fields } = await anOpenPage()
    const [one, two] = await Promise.all([make(cookie, fields), make(cookie, fields)])
    expect(new Set([one.statusCode, two.statusCode])).toEqual(new Set([200, 400]))
    expect(one.statusCode === 400 ? one.body : two.body).toContain('already have a token named')
  })

  it('fills in the form from a link that names a task and a repository', async () => {
    const { repository, page } = await anOpenPage('?preset=publish&repository=REPOSITORY')
    expect(checkedIn(page.body)).toEqual(['publish', 'specified', repository.path])
    expect(page.body).toContain('value="Publish packages"')
  })

  it('ignores a preset that does not exist', async () => {
    const { page } = await anOpenPage('?preset=__proto__')
    expect(page.statusCode).toBe(200)
    expect(checkedIn(page.body)).toEqual(['pull', 'all'])
  })

  it.each([
    ['pull', ['registry-package:r']],
    ['publish', ['registry-package:rw']],
    [
      'manage',
      ['registry-package:rw', 'registry-package-delete:rw', 'registry-manage:rw', 'repo-basic-info:r'],
    ],
  ])('gives the permissions of the task %s, whatever single ones are chosen', async (preset, scopes) => {
    const { account, cookie, fields } = await anOpenPage()
    await make(cookie, { ...fields, preset, scope: ['account-email:r'] })
    expect((await listPersonalTokens(t.db, account.id))[0]?.scopes).toEqual(scopes)
  })

  it('gives all permissions that this server checks for the task Everything', async () => {
    const { account, cookie, fields } = await anOpenPage()
    await make(cookie, { ...fields, preset: 'everything', scope: [] })
    const [token] = await listPersonalTokens(t.db, account.id)
    const given = token?.scopes ?? []
    expect(enforcedScopes.filter((scope) => !coversAll(given, [scope]))).toEqual([])
    expect(given.filter((scope) => !enforcedScopes.includes(scope))).toEqual([])
  })

  it('gives the chosen permissions when no task is chosen', async () => {
    const { account, cookie, fields } = await anOpenPage()
    await make(cookie, { ...fields, preset: 'custom', scope: ['account-email:r'] })
    expect((await listPersonalTokens(t.db, account.id))[0]?.scopes).toEqual(['account-email:r'])
  })

  it('leads links to the form that was in the list to the page of the form', async () => {
    const { cookie } = await anOpenPage()
    const query = '?preset=publish&repository=acme%2Fphp'
    const { statusCode, headers } = await t.app.inject({
      url: `/settings/tokens${query}`,
      headers: { cookie },
    })
    expect([statusCode, headers.location]).toEqual([302, `/settings/tokens/new${query}`])
  })

  it('takes the form at the URL of the list too', async () => {
    const { account, cookie, fields } = await anOpenPage()
    expect((await post(t.app, '/settings/tokens', cookie, fields)).statusCode).toBe(200)
    expect(await listPersonalTokens(t.db, account.id)).toHaveLength(1)
  })

  it('offers all permissions of SPEC 2.4', async () => {
    const { page } = await anOpenPage()
    expect(page.body.match(/name="scope"/g)).toHaveLength(44)
  })

  it('revokes a token at once', async () => {
    const { account, cookie, fields } = await anOpenPage()
    const token = await aPersonalToken(t.db, account)
    const id = (await listPersonalTokens(t.db, account.id))[0]?.id as string
    const { csrf_token } = fields
    const response = await post(t.app, '/settings/tokens/revoke', cookie, { csrf_token, id })
    expect(response.statusCode).toBe(303)
    expect(await liveTokenOf(t.db, token)).toBeUndefined()
    expect(await listPersonalTokens(t.db, account.id)).toEqual([])
  })

  it.each(['1e3', '-1', '99999999999999999999', 'x'])('finds no token with the id %s', async (id) => {
    const { cookie, fields } = await anOpenPage()
    const response = await post(t.app, '/settings/tokens/revoke', cookie, {
      csrf_token: fields.csrf_token,
      id,
    })
    expect(response.statusCode).toBe(404)
  })

  it("leaves another account's token alone", async () => {
    const other = await anAccount(t.db)
    await aPersonalToken(t.db, other)
    const id = (await listPersonalTokens(t.db, other.id))[0]?.id as string
    const { cookie, fields } = await anOpenPage()
    await post(t.app, '/settings/tokens/revoke', cookie, { csrf_token: fields.csrf_token, id })
    expect(await listPersonalTokens(t.db, other.id)).toHaveLength(1)
  })
})

/** The values of all ticked boxes and chosen radio buttons. */
function checkedIn(html: string): string[] {
  return [...html.matchAll(/value="([^"]*)" checked/g)].map(([, value]) => value as string)
}
