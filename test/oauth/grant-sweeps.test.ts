import { describe, expect, it } from 'vitest'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { withdrawAuthorization } from '../../src/oauth/authorizations.ts'
import {
  deleteEndedAuthorizations,
  deleteEndedGrants,
  deleteSupersededGrants,
} from '../../src/oauth/grant-sweeps.ts'
import { deleteExpiredCodes, deleteExpiredPairs, wipeSeals } from '../../src/oauth/token-sweeps.ts'
import { anAccount, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, responseOf, submitConsent } from '../support/browse.ts'
import { anAccessToken, anApplication } from '../support/oauth-actors.ts'
import {
  ageSupersededGrants,
  changeRegistration,
  countConsents,
  positionOfGrantSweep,
} from '../support/oauth-rows.ts'
import { dropRows } from '../support/rows.ts'
import { anAuthorizedApplication, pass, tokenClient, works } from '../support/token-client.ts'

const day = 86_400

describe('the sweeps of grants', () => {
  const t = useApp()

  /** Runs the sweeps like the job does, which repeats each one while it deletes as many rows as it may. */
  async function sweep(limit = 2000) {
    const sweeps = [
      wipeSeals,
      deleteExpiredPairs,
      deleteExpiredCodes,
      deleteEndedGrants,
      deleteEndedAuthorizations,
      deleteSupersededGrants,
    ]
    for (const one of sweeps) while ((await one(t.db, limit, t.config)) >= limit);
  }
  const countOf = (id: string) => countConsents(t.db, { id })
  const nothing = { authorizations: 0, grants: 0, codes: 0 }

  /** An account whose browser consents to an application, again and again. */
  async function aVisitor() {
    const account = await anAccount(t.db)
    const scopes = ['registry-package:rw', 'account-profile:r', 'account-email:r']
    const application = await anApplication(t.db, { scopes })
    const cookie = await signIn(t.app, account)
    const client = tokenClient(t, application)
    const consent = async (scope: string) => {
      const page = await open(t, authorizeLink(application, { scope, prompt: 'consent' }), cookie)
      const code = responseOf(await submitConsent(t, page, cookie, 'approve'))['code']
      return (await client.exchange(String(code))).json()
    }
    return { account, application, cookie, consent, ...client }
  }
  const narrow = 'account-profile:r'
  const wide = 'registry-package:r account-profile:r'

  it('delete authorizations, their grants and codes 31 days after their end, in batches', async () => {
    const people = [await anAuthorizedApplication(t), await anAuthorizedApplication(t)]
    const stays = await anAuthorizedApplication(t)
    for (const { tokens } of [...people, stays]) for (let n = 0; n < 3; n += 1) await tokens()
    const live = await stays.tokens()
    for (const { account, authorization } of people) {
      expect(await withdrawAuthorization(t.db, operator, account.id, authorization.id)).not.toBeNull()
    }
    await pass(t.db, 30 * day)
    await sweep()
    for (const { account } of people) {
      expect(await countOf(account.id)).toEqual({ authorizations: 1, grants: 1, codes: 3 })
    }
    await pass(t.db, 2 * day)
    expect(await deleteEndedGrants(t.db, 1)).toBe(1)
    expect(await deleteEndedAuthorizations(t.db, 2)).toBe(2)
    await sweep(1)
    for (const { account } of people) expect(await countOf(account.id)).toEqual(nothing)
    expect(await countOf(stays.account.id)).toEqual({ authorizations: 1, grants: 1, codes: 4 })
    expect((await stays.refresh(live.refresh_token)).statusCode).toBe(200)
  })

  it('delete a grant that lost its last scope, and keep its authorization', async () => {
    const { account, application, consent } = await aVisitor()
    await consent('account-email:r')
    const { access_token } = await consent('account-profile:r')
    await changeRegistration(t.db, application, { scopes: ['account-profile:r'] })
    expect(await countOf(account.id)).toMatchObject({ authorizations: 1, grants: 2 })
    await pass(t.db, 32 * day)
    await sweep()
    expect(await countOf(account.id)).toMatchObject({ authorizations: 1, grants: 1 })
    expect(access_token).toBeTypeOf('string')
  })

  it('keep a superseded grant while a token needs it, however long it is refreshed, and delete it then', async () => {
    const { account, application, cookie, consent, refresh } = await aVisitor()
    let first = await consent(narrow)
    await consent(wide)
    for (let n = 0; n < 5; n += 1) {
      await pass(t.db, 100 * day)
      await sweep(2)
      first = (await refresh(first.refresh_token)).json()
      expect(await works(t, first.access_token)).toBe(true)
    }
    expect(await countOf(account.id)).toMatchObject({ grants: 2 })
    await pass(t.db, 190 * day)
    await sweep(2)
    // The pair is dead, and still kept for 30 days.
    expect(await countOf(account.id)).toMatchObject({ grants: 2 })
    for (const _ of [1, 2]) {
      await pass(t.db, 40 * day)
      await sweep(2)
    }
    expect(await countOf(account.id)).toMatchObject({ authorizations: 1, grants: 1 })
    const again = await open(t, authorizeLink(application, { scope: narrow }), cookie)
    expect(responseOf(again)).toHaveProperty('code')
  })

  it('keep a grant that allows something that no later one does', async () => {
    const { account, consent } = await aVisitor()
    await consent(wide)
    await consent(narrow)
    await consent('account-email:r')
    await pass(t.db, 300 * day)
    for (const _ of [1, 2]) {
      await pass(t.db, 40 * day)
      await sweep()
    }
    expect(await countOf(account.id)).toMatchObject({ grants: 3 })
  })

  it('keep a superseded grant while its code can still be used', async () => {
    const { account, application, cookie, consent, exchange } = await aVisitor()
    const page = await open(t, authorizeLink(application, { scope: narrow, prompt: 'consent' }), cookie)
    const code = String(responseOf(await submitConsent(t, page, cookie, 'approve'))['code'])
    await consent(wide)
    await ageSupersededGrants(t.db)
    expect(await deleteSupersededGrants(t.db, 2000)).toBe(0)
    expect(await countOf(account.id)).toMatchObject({ grants: 2 })
    expect((await exchange(code)).statusCode).toBe(200)
  })

  it('read many pairs in several calls, and see those that come meanwhile', async () => {
    const { account, consent, refresh } = await aVisitor()
    const first = await consent(narrow)
    await consent(wide)
    const other = await anAuthorizedApplication(t)
    for (let n = 0; n < 150; n += 1) await anAccessToken(t.db, other.authorization)
    await ageSupersededGrants(t.db)
    const position = () => positionOfGrantSweep(t.db)
    expect(await position()).toBe(-1)
    expect(await deleteSupersededGrants(t.db, 1)).toBe(0)
    expect(await position()).toBeGreaterThan(0)
    // The refreshed pair comes after the position. The earlier one is gone, as if it had been dead for long.
    const second = (await refresh(first.refresh_token)).json()
    await dropRows(t.db, 'token_pair', { accessHash: hashSecret(first.access_token) })
    while ((await position()) !== -1) await deleteSupersededGrants(t.db, 1)
    expect(await countOf(account.id)).toMatchObject({ grants: 2 })
    expect(await works(t, second.access_token)).toBe(true)
  })
})
