import { describe, expect, it } from 'vitest'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { aMember, anAccount, aRepository, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, responseOf, submitConsent } from '../support/browse.ts'
import { type ApplicationActor, anApplication } from '../support/oauth-actors.ts'
import { liveGrantsOf } from '../support/oauth-rows.ts'
import { ask, postForm } from '../support/token-client.ts'

const site = 'http://svc.test'
const api = `${site}/api`
const registryOf = ({ path }: { path: string }) => `${site}/${path}/-/packages/`
const t = useApp()

/** An account that is a member of two private repositories, and an application. */
async function aPerson() {
  const account = await anAccount(t.db)
  const [one, other] = [await aRepository(t.db), await aRepository(t.db)]
  for (const repository of [one, other]) await aMember(t.db, account, repository, 'developer')
  const application = await anApplication(t.db, {
    scopes: ['account-profile:r', 'repo-basic-info:r', 'registry-package:rw'],
    resourceScope: 'all',
  })
  const cookie = await signIn(t.app, account)

  const link = (resources: readonly string[], parameters = {}) =>
    authorizeLink(application, parameters) +
    resources.map((resource) => `&resource=${encodeURIComponent(resource)}`).join('')

  /** Gives the consent on the page. Returns the code. */
  async function consent(resources: readonly string[], parameters = {}): Promise<string> {
    const page = await open(t, link(resources, { prompt: 'consent', ...parameters }), cookie)
    return String(responseOf(await submitConsent(t, page, cookie, 'approve'))['code'])
  }

  return { account, one, other, application, cookie, link, consent }
}

/** Sends a token request that may repeat `resource`. */
async function token(
  { basic }: ApplicationActor,
  form: Record<string, string>,
  resources: readonly string[] = [],
) {
  const sent = new URLSearchParams(form)
  for (const resource of resources) sent.append('resource', resource)
  return postForm(t, '/oauth2/token', sent.toString(), { authorization: basic })
}

const exchange = (application: ApplicationActor, code: string, resources: readonly string[] = []) =>
  token(application, { grant_type: 'authorization_code', code }, resources)
const refresh = (application: ApplicationActor, pair: TokenResponse, resources: readonly string[] = []) =>
  token(application, { grant_type: 'refresh_token', refresh_token: pair.refresh_token }, resources)

/** Returns where an access token works: the API, and the registries of the repositories. */
async function reach(
  { access_token: bearer }: TokenResponse,
  repositories: readonly { path: string }[],
): Promise<string[]> {
  const urls = [
    '/api/user',
    ...repositories.flatMap(({ path }) => [
      `/api/repositories/${path}`,
      `/${path}/-/packages/packages.json`,
      `/${path}/-/feed.atom`,
    ]),
  ]
  const statuses = await Promise.all(
    urls.map(async (url) => {
      const { statusCode } = await t.app.inject({ url, headers: { authorization: `Bearer ${bearer}` } })
      expect([200, 401]).toContain(statusCode)
      return statusCode === 200
    }),
  )
  return urls.filter((_, i) => statuses[i])
}

describe('a token for resources (OPENID 273)', () => {
  it('works there and nowhere else', async () => {
    const { one, other, application, consent } = await aPerson()
    const both = [one, other]
    const everything = await reach((await exchange(application, await consent([]))).json(), both)
    expect(everything).toHaveLength(7)
    const registry = `/${one.path}/-/packages/packages.json`
    const ofApi = everything.filter((url) => url.startsWith('/api/'))
    for (const [resources, expected] of [
      [[site], everything],
      [[`${api}/`], ofApi],
      [[registryOf(one).slice(0, -1)], [registry]],
      [
        [registryOf(one), 'HTTP://SVC.test/api'],
        [...ofApi, registry],
      ],
    ] as const) {
      const pair = (await exchange(application, await consent(resources))).json<TokenResponse>()
      expect([resources, (await reach(pair, both)).sort()]).toEqual([resources, [...expected].sort()])
    }
  })

  it('works at a registry whose repository was renamed, under both names', async () => {
    const { one, application, consent } = await aPerson()
    const pair = (await exchange(application, await consent([registryOf(one)]))).json<TokenResponse>()
    const name = `${one.path.split('/')[1]}-new`
    await t.db.query('update repository set name = $1 where id = $2', [name, one.id])
    await t.db.query(
      'insert into repository_alias (group_id, name, repository_id) select group_id, $1, id from repository where id = $2',
      [one.path.split('/')[1], one.id],
    )
    const renamed = { path: `${one.path.split('/')[0]}/${name}` }
    expect(await reach(pair, [one])).toEqual([`/${one.path}/-/packages/packages.json`])
    expect(await reach(pair, [renamed])).toEqual([`/${renamed.path}/-/packages/packages.json`])
  })

  it('shows them as `aud` when it is introspected, and one without them has none', async () => {
    const { one, application, consent } = await aPerson()
    for (const [resources, aud] of [
      [[], undefined],
      [[api], api],
      [
        [`${registryOf(one)}`, site],
        [site, registryOf(one)],
      ],
    ] as const) {
      const pair = (await exchange(application, await consent(resources))).json<TokenResponse>()
      for (const secret of [pair.access_token, pair.refresh_token])
        expect((await ask(t, application, 'introspect', { token: secret })).json().aud).toEqual(aud)
    }
  })

  it('may be for fewer of them at the exchange and at each refresh, which keeps them', async () => {
    const { one, other, application, consent } = await aPerson()
    const both = [one, other]
    const urlOf = ({ path }: { path: string }) => `/${path}/-/packages/packages.json`
    const code = await consent([registryOf(one), registryOf(other)])
    const first = (await exchange(application, code, [registryOf(one)])).json<TokenResponse>()
    expect(await reach(first, both)).toEqual([urlOf(one)])
    const second = (await refresh(application, first)).json<TokenResponse>()
    expect(await reach(second, both)).toEqual([urlOf(one)])
    const third = (await refresh(application, second, [registryOf(other)])).json<TokenResponse>()
    expect(await reach(third, both)).toEqual([urlOf(other)])
  })

  it('stays for those of the exchange when the authorization request named none', async () => {
    const { one, application, consent } = await aPerson()
    const pair = (await exchange(application, await consent([]), [api])).json<TokenResponse>()
    expect(await reach(pair, [one])).toEqual(['/api/user', `/api/repositories/${one.path}`])
    for (const wider of [[site], [registryOf(one)], [api, registryOf(one)]]) {
      const refused = await refresh(application, pair, wider)
      expect([refused.statusCode, refused.json().error]).toEqual([400, 'invalid_target'])
    }
    const next = (await refresh(application, pair)).json<TokenResponse>()
    expect(await reach(next, [one])).toEqual(['/api/user', `/api/repositories/${one.path}`])
  })

  it('ignores an empty resource, and other endpoints ignore any', async () => {
    const { one, application, consent } = await aPerson()
    const pair = (await exchange(application, await consent(['']), [''])).json<TokenResponse>()
    expect(await reach(pair, [one])).toHaveLength(4)
    const form = { token: pair.access_token, resource: 'x' }
    expect((await ask(t, application, 'introspect', form)).json().active).toBe(true)
  })
})

describe('consent for resources (OPENID 273)', () => {
  it('names them on the page and in the settings', async () => {
    const { one, cookie, link, consent } = await aPerson()
    const page = await open(t, link([registryOf(one), api]), cookie)
    expect(page.body).toContain(`the API of svc.test, the registry of ${one.path}`)
    await consent([registryOf(one)])
    const settings = await open(t, '/settings/authorizations', cookie)
    expect(settings.body).toMatch(new RegExp(`Works only at</dt>\\s*<dd>the registry of ${one.path}<`))
  })

  it('is not asked again for what an earlier grant covers, and the code is only for the requested ones', async () => {
    const { one, account, application, cookie, link, consent } = await aPerson()
    await consent([])
    const redirect = await open(t, link([api]), cookie)
    const pair = (await exchange(application, String(responseOf(redirect)['code']))).json<TokenResponse>()
    expect(await reach(pair, [one])).toEqual(['/api/user', `/api/repositories/${one.path}`])
    const refused = await refresh(application, pair, [site])
    expect(refused.json().error).toBe('invalid_target')
    expect(await liveGrantsOf(t.db, account)).toHaveLength(1)
  })

  it('is asked again for more than an earlier grant is good for, and marks all as new', async () => {
    const { one, other, cookie, link, consent } = await aPerson()
    await consent([registryOf(one)])
    expect((await open(t, link([registryOf(one)]), cookie)).statusCode).toBe(302)
    for (const wider of [[], [site], [api], [registryOf(other)], [registryOf(one), api]]) {
      const page = await open(t, link(wider), cookie)
      expect([wider, page.statusCode]).toEqual([wider, 200])
      expect(page.body).toContain('marked “new”')
    }
  })
})

describe('an unknown resource (OPENID 274)', () => {
  const unknown = [
    `${site}/other`,
    `${site}/api/user`,
    `${site}/no/where/-/packages/`,
    'https://svc.test/api',
    'http://evil.test/api',
    `${api}?x`,
    `${api}#x`,
    'http://x@svc.test/api',
    'api',
    '%00',
  ]

  it('gets invalid_target from the authorization endpoint', async () => {
    const { cookie, link } = await aPerson()
    // Whether a registry exists is told after the approval only.
    for (const resource of unknown.filter((one) => !one.includes('/no/where/'))) {
      const redirect = await open(t, link([api, resource], { state: 's' }), cookie)
      const { error, state, iss } = responseOf(redirect)
      expect([resource, redirect.statusCode, error, state, iss]).toEqual([
        resource,
        302,
        'invalid_target',
        's',
        site,
      ])
    }
  })

  it('gets invalid_target from the token endpoint, and the code and the refresh token stay valid', async () => {
    const { application, consent } = await aPerson()
    const code = await consent([])
    for (const resource of unknown) {
      const refused = await exchange(application, code, [resource])
      expect([resource, refused.statusCode, refused.json().error]).toEqual([resource, 400, 'invalid_target'])
    }
    const pair = (await exchange(application, code)).json<TokenResponse>()
    for (const resource of unknown) {
      const refused = await refresh(application, pair, [resource])
      expect([resource, refused.json().error]).toEqual([resource, 'invalid_target'])
    }
    expect((await refresh(application, pair)).statusCode).toBe(200)
  })

  it('is the registry of a repository that the account may not see, like one that does not exist', async () => {
    const { account, cookie, link, application, consent } = await aPerson()
    const hidden = await aRepository(t.db)
    const resources = [registryOf(hidden), registryOf({ path: 'acme/nothing' })]
    for (const resource of resources) {
      // Before the person has agreed to the application, it learns nothing (OPENID 274).
      const page = await open(t, link([resource], { state: 's' }), cookie)
      expect(page.statusCode).toBe(200)
      const answer = await submitConsent(t, page, cookie, 'approve')
      expect(responseOf(answer)).toMatchObject({ error: 'invalid_target', state: 's', iss: site })
      expect((await submitConsent(t, page, cookie, 'approve')).body).toContain('already made')
    }
    expect(await liveGrantsOf(t.db, account)).toEqual([])
    const refused = await exchange(application, await consent([]), [registryOf(hidden)])
    expect(refused.json().error).toBe('invalid_target')
    for (const resource of resources)
      expect(responseOf(await open(t, link([resource]), cookie))['error']).toBe('invalid_target')
    const shared = await aRepository(t.db, { visibility: 'public' })
    expect(responseOf(await open(t, link([registryOf(shared)]), cookie))).toHaveProperty('code')
  })

  it('is one that the grant does not have', async () => {
    const { one, other, application, consent } = await aPerson()
    const code = await consent([registryOf(one)])
    for (const resources of [[registryOf(other)], [api], [site], [registryOf(one), api]]) {
      const refused = await exchange(application, code, resources)
      expect([resources, refused.json().error]).toEqual([resources, 'invalid_target'])
    }
    const pair = (await exchange(application, code, [registryOf(one)])).json<TokenResponse>()
    expect((await refresh(application, pair, [api])).json().error).toBe('invalid_target')
  })

  it('is more than ten of them', async () => {
    const { cookie, link } = await aPerson()
    const redirect = await open(t, link(Array.from({ length: 11 }, () => api)), cookie)
    expect(responseOf(redirect)['error']).toBe('invalid_target')
  })
})
