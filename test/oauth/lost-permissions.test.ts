import { describe, expect, it } from 'vitest'
import { setApplicationStatus } from '../../src/oauth/applications.ts'
import { useApp } from '../support/app.ts'
import { anAuthorization } from '../support/oauth-actors.ts'
import { changeRegistration, endGrants, hasEnded } from '../support/oauth-rows.ts'
import { anAuthorizedApplication, ask, works } from '../support/token-client.ts'

const t = useApp()

/** Changes the scopes of a registration as an administrator's migration does. */
const setScopes = (application: { id: string }, scopes: string[]) =>
  changeRegistration(t.db, application, { scopes })

describe('a scope that an application loses', () => {
  it('leaves its existing tokens at the next request, and the tokens of later refreshes', async () => {
    const { application, tokens, refresh } = await anAuthorizedApplication(t)
    const first = await tokens()
    const narrow = (await refresh(first.refresh_token, { scope: 'account-email:r' })).json()
    const introspect = async (token: string) => (await ask(t, application, 'introspect', { token })).json()
    const emails = (token: string) =>
      t.app.inject({ url: '/api/user/emails', headers: { authorization: `Bearer ${token}` } })
    expect([
      (await emails(first.access_token)).statusCode,
      (await emails(narrow.access_token)).statusCode,
    ]).toEqual([200, 200])

    await setScopes(application, ['account-profile:r', 'registry-package:r'])
    expect((await emails(first.access_token)).statusCode).toBe(403)
    expect((await emails(narrow.access_token)).statusCode).toBe(403)
    expect((await introspect(first.access_token)).scope).toBe('account-profile:r registry-package:r')
    const next = (await refresh(narrow.refresh_token)).json()
    expect(next.scope).toBe('account-profile:r registry-package:r')
    expect((await emails(next.access_token)).statusCode).toBe(403)
    expect((await refresh(next.refresh_token, { scope: 'account-email:r' })).json().error).toBe(
      'invalid_scope',
    )

    await setScopes(application, ['account-profile:r', 'account-email:r', 'registry-package:rw'])
    expect((await introspect(next.access_token)).scope).toBe('account-profile:r registry-package:r')
    expect((await emails(first.access_token)).statusCode).toBe(403)
  })

  it('leaves the code that waits for its exchange', async () => {
    const { application, exchange, newCode } = await anAuthorizedApplication(t)
    const [whole, part] = [await newCode(), await newCode({ scopes: ['account-email:r'] })]
    await setScopes(application, ['account-profile:r'])
    expect((await exchange(whole)).json()).toMatchObject({ scope: 'account-profile:r' })
    expect((await exchange(part)).json()).toMatchObject({ error: 'invalid_grant' })
  })

  it('revives no grant that has ended', async () => {
    const { application, tokens, authorization } = await anAuthorizedApplication(t)
    const { access_token } = await tokens()
    await endGrants(t.db, authorization)
    expect(await works(t, access_token)).toBe(false)
    await setScopes(application, ['account-profile:r'])
    expect(await works(t, access_token)).toBe(false)
  })

  it('ends a grant that has no other scope, and its authorization', async () => {
    const { application, tokens, refresh, authorization } = await anAuthorizedApplication(t, {
      scopes: ['account-email:r'],
    })
    const { access_token, refresh_token } = await tokens()
    await setScopes(application, ['account-profile:r'])
    expect(await works(t, access_token)).toBe(false)
    expect((await refresh(refresh_token)).json().error).toBe('invalid_grant')
    expect(await hasEnded(t.db, authorization)).toBe(true)
  })

  it('does not change grants when the application gets more scopes', async () => {
    const { application, tokens } = await anAuthorizedApplication(t, { scopes: ['account-profile:r'] })
    const { access_token } = await tokens()
    await setScopes(application, ['account-profile:rw', 'account-email:r'])
    const { scope } = (await ask(t, application, 'introspect', { token: access_token })).json()
    expect(scope).toBe('account-profile:r')
  })
})

describe('suspending an application', () => {
  it.each(['suspended', 'pending', 'declined'] as const)(
    'ends its authorizations, codes and tokens for good (%s): a later approval revives none',
    async (status) => {
      const { account, application, tokens, refresh, exchange, newCode } = await anAuthorizedApplication(t)
      const { access_token, refresh_token } = await tokens()
      const code = await newCode()
      await setApplicationStatus(t.db, application.clientId, status)
      expect(await works(t, access_token)).toBe(false)
      await setApplicationStatus(t.db, application.clientId, 'approved')
      expect(await works(t, access_token)).toBe(false)
      expect((await refresh(refresh_token)).json().error).toBe('invalid_grant')
      expect((await exchange(code)).json().error).toBe('invalid_grant')
      // A new consent starts a new authorization.
      expect(await anAuthorization(t.db, account, application)).toMatchObject({ scopes: application.scopes })
    },
  )

  it('leaves the authorizations of other applications', async () => {
    const [one, other] = [await anAuthorizedApplication(t), await anAuthorizedApplication(t)]
    const { access_token } = await other.tokens()
    await setApplicationStatus(t.db, one.application.clientId, 'suspended')
    expect(await works(t, access_token)).toBe(true)
  })
})
