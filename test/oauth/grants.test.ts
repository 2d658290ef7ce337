import { describe, expect, it } from 'vitest'
import { aMember, anAccount, aRepository, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, responseOf, submitConsent } from '../support/browse.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { basic } from '../support/registry-actors.ts'
import { dropRows } from '../support/rows.ts'
import { ask, tokenClient, works } from '../support/token-client.ts'

describe('a token may do what its own consent allowed (CONTRACT 1.5)', () => {
  const t = useApp()

  async function aVisitor() {
    const account = await anAccount(t.db)
    const application = await anApplication(t.db, {
      scopes: ['registry-package:rw', 'account-profile:r'],
      resourceScope: 'specified',
    })
    const toy = await aRepository(t.db)
    const prod = await aRepository(t.db)
    for (const repository of [toy, prod]) await aMember(t.db, account, repository, 'admin')
    const cookie = await signIn(t.app, account)
    const client = tokenClient(t, application)
    const codeFor = async (scope: string, repository: { path: string }) => {
      const page = await open(t, authorizeLink(application, { scope, prompt: 'consent' }), cookie)
      return String(
        responseOf(await submitConsent(t, page, cookie, 'approve', { repository: repository.path }))['code'],
      )
    }
    const consent = async (scope: string, repository: { path: string }) =>
      (await client.exchange(await codeFor(scope, repository))).json()
    const refresh = async (pair: { refresh_token: string }) =>
      (await client.refresh(pair.refresh_token)).json()
    return { account, application, toy, prod, cookie, ...client, codeFor, consent, renew: refresh }
  }

  /**
   * Returns the statuses of a pull and a push. The archive is empty, so a push that is allowed fails with another
   * status.
   */
  async function pullAndPush(token: string, repository: { path: string }) {
    const headers = { authorization: basic(token) }
    const url = `/${repository.path}/-/packages/`
    const pull = await t.app.inject({ url: `${url}packages.json`, headers })
    const push = await t.app.inject({
      method: 'PUT',
      url: `${url}upload/acme/lib/1.0.0`,
      headers,
      payload: 'no zip',
    })
    return [pull.statusCode, push.statusCode]
  }

  const all = [200, 400]
  const reads = [200, 403]
  const nothing = [404, 404]

  it('neither widens nor narrows an earlier token by a later consent, also after refreshes', async () => {
    const { toy, prod, consent, renew } = await aVisitor()
    let first = await consent('registry-package:rw', toy)
    expect([await pullAndPush(first.access_token, toy), await pullAndPush(first.access_token, prod)]).toEqual(
      [all, nothing],
    )
    let second = await consent('registry-package:r', prod)
    for (let i = 0; i < 2; i += 1) {
      expect([
        await pullAndPush(first.access_token, toy),
        await pullAndPush(first.access_token, prod),
      ]).toEqual([all, nothing])
      expect([
        await pullAndPush(second.access_token, toy),
        await pullAndPush(second.access_token, prod),
      ]).toEqual([nothing, reads])
      first = await renew(first)
      second = await renew(second)
    }
    expect(first.scope).toBe('registry-package:rw')
    expect(second.scope).toBe('registry-package:r')
  })

  it('gives a code the grant that it was issued for, whatever was consented to before it is exchanged', async () => {
    const { toy, prod, codeFor, consent, exchange } = await aVisitor()
    const code = await codeFor('registry-package:rw', toy)
    await consent('registry-package:r', prod)
    const pair = (await exchange(code)).json()
    expect([await pullAndPush(pair.access_token, toy), await pullAndPush(pair.access_token, prod)]).toEqual([
      all,
      nothing,
    ])
  })

  it('issues a code without a page from one grant that covers the request, and widens nothing (OAUTH 47)', async () => {
    const { application, toy, prod, consent, cookie, exchange } = await aVisitor()
    await consent('registry-package:rw', toy)
    await consent('account-profile:r', prod)
    const redirect = await open(t, authorizeLink(application, { scope: 'registry-package:r' }), cookie)
    const pair = (await exchange(String(responseOf(redirect)['code']))).json()
    expect(pair.scope).toBe('registry-package:r')
    expect([await pullAndPush(pair.access_token, toy), await pullAndPush(pair.access_token, prod)]).toEqual([
      reads,
      nothing,
    ])
    const both = await open(t, authorizeLink(application), cookie)
    expect(both.statusCode).toBe(200)
  })

  it('introspects and narrows each token by its own grant', async () => {
    const { application, toy, prod, consent, refresh } = await aVisitor()
    const first = await consent('registry-package:rw account-profile:r', toy)
    await consent('registry-package:r', prod)
    const seen = (await ask(t, application, 'introspect', { token: first.access_token })).json()
    expect(seen).toMatchObject({ scope: 'registry-package:rw account-profile:r', repositories: [toy.path] })
    const narrow = (await refresh(first.refresh_token, { scope: 'registry-package:r' })).json()
    expect(await pullAndPush(narrow.access_token, toy)).toEqual(reads)
    expect((await refresh(narrow.refresh_token)).json().scope).toBe('registry-package:rw account-profile:r')
  })

  it('ends all grants with the refresh token of one (OAUTH 118)', async () => {
    const { toy, prod, consent, revoke, refresh } = await aVisitor()
    const first = await consent('account-profile:r', toy)
    const second = await consent('account-profile:r', prod)
    await revoke(first.refresh_token)
    for (const pair of [first, second]) {
      expect(await works(t, pair.access_token)).toBe(false)
      expect((await refresh(pair.refresh_token)).json().error).toBe('invalid_grant')
    }
    const third = await consent('account-profile:r', prod)
    expect(await works(t, third.access_token)).toBe(true)
    expect(await works(t, second.access_token)).toBe(false)
  })

  it('lists what all live grants allow, separately if they are for different repositories', async () => {
    const { application, toy, prod, consent, cookie } = await aVisitor()
    await consent('registry-package:r', prod)
    await consent('registry-package:rw', toy)
    await consent('account-profile:r', toy)
    const page = (await open(t, '/settings/authorizations', cookie)).body
    expect(page.match(/<h2/g)).toHaveLength(1)
    expect(page).toContain(application.name)
    const parts = page.split('<dt>Repositories</dt>')
    expect(parts).toHaveLength(3)
    expect(parts[0]).toContain('data-scope="registry-package:r"')
    expect(parts[0]).not.toContain('account-profile')
    expect(parts[1]).toContain(`<dd>${prod.path}</dd>`)
    expect(parts[1]).toContain('data-scope="registry-package:rw"')
    expect(parts[1]).toContain('data-scope="account-profile:r"')
    expect(parts[2]).toContain(`<dd>${toy.path}</dd>`)
    await dropRows(t.db, 'repository', { id: toy.id })
    expect((await open(t, '/settings/authorizations', cookie)).body).toContain('no longer exist')
  })
})
