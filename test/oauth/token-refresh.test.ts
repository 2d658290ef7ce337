import { describe, expect, it } from 'vitest'
import { setDisabled } from '../../src/accounts/accounts.ts'
import { operator } from '../../src/domain/principal.ts'
import { makeSecret } from '../../src/domain/secrets.ts'
import { setApplicationStatus } from '../../src/oauth/applications.ts'
import { wipeSeals } from '../../src/oauth/token-sweeps.ts'
import { useApp } from '../support/app.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { expireRefreshToken, storedPair } from '../support/oauth-rows.ts'
import { countRows, textOf } from '../support/rows.ts'
import { anAuthorizedApplication, ask, pass, works } from '../support/token-client.ts'

describe('POST /oauth2/token with grant_type=refresh_token', () => {
  const t = useApp()

  async function aPair() {
    const actor = await anAuthorizedApplication(t)
    return { ...actor, old: await actor.tokens() }
  }

  it('returns a new pair with the full lifetimes (OAUTH 101)', async () => {
    const { refresh, old } = await aPair()
    await pass(t.db, 3600)
    const response = await refresh(old.refresh_token)
    expect(response.statusCode).toBe(200)
    const next = response.json()
    expect(next).toMatchObject({ token_type: 'bearer', expires_in: 28_800, scope: old.scope })
    expect(next.access_token).not.toBe(old.access_token)
    expect(next.refresh_token).not.toBe(old.refresh_token)
    await pass(t.db, 15_552_000 - 60)
    expect((await refresh(next.refresh_token)).statusCode).toBe(200)
  })

  it('lets the old access token work for the grace period and no longer (OAUTH 102, 105)', async () => {
    const { refresh, old } = await aPair()
    await refresh(old.refresh_token)
    await pass(t.db, 290)
    expect(await works(t, old.access_token)).toBe(true)
    await pass(t.db, 10)
    expect(await works(t, old.access_token)).toBe(false)
  })

  it('returns the same pair within the grace period (OAUTH 103, 115)', async () => {
    const { refresh, old } = await aPair()
    const first = (await refresh(old.refresh_token)).json()
    await pass(t.db, 100)
    const again = (await refresh(old.refresh_token)).json()
    const { expires_in: left, ...rest } = again
    expect({ ...rest, expires_in: 28_800 }).toEqual(first)
    expect(left).toBeLessThanOrEqual(28_700)
    expect(left).toBeGreaterThan(28_600)
    expect(await works(t, again.access_token)).toBe(true)
  })

  it('counts the grace period from the first use (OAUTH 104)', async () => {
    const { refresh, old } = await aPair()
    await refresh(old.refresh_token)
    await pass(t.db, 200)
    expect((await refresh(old.refresh_token)).statusCode).toBe(200)
    await pass(t.db, 100)
    expect((await refresh(old.refresh_token)).statusCode).toBe(400)
  })

  it('revokes the live tokens when an old one comes back after its grace (OAUTH 106)', async () => {
    const { refresh, old, tokens, newCode, exchange } = await aPair()
    const next = (await refresh(old.refresh_token)).json()
    const beside = await tokens()
    await pass(t.db, 300)
    const response = await refresh(old.refresh_token)
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_grant')
    for (const pair of [next, beside]) {
      expect(await works(t, pair.access_token)).toBe(false)
      expect((await refresh(pair.refresh_token)).json().error).toBe('invalid_grant')
    }
    expect((await exchange(await newCode())).statusCode).toBe(200)
  })

  it('never prolongs the life of the old pair (OAUTH 107)', async () => {
    const { refresh, old } = await aPair()
    await pass(t.db, 28_800 - 60)
    const next = (await refresh(old.refresh_token)).json()
    await pass(t.db, 60)
    expect(await works(t, old.access_token)).toBe(false)
    expect(await works(t, next.access_token)).toBe(true)
  })

  it('does not report a reuse when the token only expired within its grace period', async () => {
    const { refresh, old } = await aPair()
    await expireRefreshToken(t.db, old.refresh_token, '60 seconds')
    const next = (await refresh(old.refresh_token)).json()
    await pass(t.db, 60)
    expect((await refresh(old.refresh_token)).statusCode).toBe(400)
    expect(await works(t, next.access_token)).toBe(true)
  })

  it('returns one pair to twenty racing requests, stored once (OAUTH 108)', async () => {
    const { refresh, old, authorization } = await aPair()
    const responses = await Promise.all(Array.from({ length: 20 }, () => refresh(old.refresh_token)))
    expect(responses.map(({ statusCode }) => statusCode)).toEqual(Array(20).fill(200))
    expect(new Set(responses.map((response) => response.json().access_token)).size).toBe(1)
    expect(new Set(responses.map((response) => response.json().refresh_token)).size).toBe(1)
    expect(await countRows(t.db, 'token_pair', { authorizationId: authorization.id })).toBe(2)
  })

  it('refuses one older than 180 days (OAUTH 109)', async () => {
    const { refresh, old } = await aPair()
    await pass(t.db, 15_552_000)
    const response = await refresh(old.refresh_token)
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_grant')
  })

  it('refuses the token of another application, and revokes nothing (OAUTH 110)', async () => {
    const { refresh, old } = await aPair()
    const thief = await anApplication(t.db)
    const steal = () =>
      ask(t, thief, 'token', { grant_type: 'refresh_token', refresh_token: old.refresh_token })
    const response = await steal()
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_grant')
    const next = (await refresh(old.refresh_token)).json()
    await pass(t.db, 301)
    await steal()
    expect(await works(t, next.access_token)).toBe(true)
  })

  it('does not accept a token as one of another kind (OAUTH 111)', async () => {
    const { refresh, old } = await aPair()
    const response = await refresh(old.access_token)
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_grant')
    expect(await works(t, old.refresh_token)).toBe(false)
  })

  it('narrows the access token, while the refresh token keeps all (OAUTH 112)', async () => {
    const { refresh, old } = await aPair()
    const narrow = (
      await refresh(old.refresh_token, { scope: 'account-profile:r registry-package:r' })
    ).json()
    expect(narrow.scope).toBe('account-profile:r registry-package:r')
    const full = (await refresh(narrow.refresh_token)).json()
    expect(full.scope).toBe(old.scope)
    const twice = await refresh(full.refresh_token, { scope: 'account-profile:r account-profile:r' })
    expect(twice.json().scope).toBe('account-profile:r')
    const last = await refresh(twice.json().refresh_token, { scope: old.scope })
    expect(last.json().scope).toBe(old.scope)
  })

  it('refuses a read-only scope that does not exist, although its read-write scope was granted', async () => {
    const { refresh, tokens } = await anAuthorizedApplication(t, { scopes: ['registry-package-delete:rw'] })
    const old = await tokens()
    const refused = await refresh(old.refresh_token, { scope: 'registry-package-delete:r' })
    expect([refused.statusCode, refused.json().error]).toEqual([400, 'invalid_scope'])
    expect((await refresh(old.refresh_token)).json().scope).toBe('registry-package-delete:rw')
  })

  it.each([
    'repo-delete:rw',
    'account-profile:rw',
    'nonsense',
    ' ',
    '"',
    'account-profile:r  account-email:r',
  ])('refuses a wider scope, and the token stays good (OAUTH 113): %s', async (scope) => {
    const { refresh, old } = await aPair()
    const response = await refresh(old.refresh_token, { scope })
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_scope')
    expect(await storedPair(t.db, old.refresh_token)).toMatchObject({ supersededAt: null })
    expect((await refresh(old.refresh_token)).statusCode).toBe(200)
  })

  it('rejects a revoked token, also within the grace period (OAUTH 114)', async () => {
    const { refresh, revoke, old } = await aPair()
    const next = (await refresh(old.refresh_token)).json()
    await revoke(next.refresh_token)
    expect((await refresh(old.refresh_token)).json().error).toBe('invalid_grant')
    expect((await refresh(next.refresh_token)).json().error).toBe('invalid_grant')
  })

  it('makes distinct tokens within one second (OAUTH 117)', async () => {
    const { refresh, old } = await aPair()
    const second = (await refresh(old.refresh_token)).json()
    const third = (await refresh(second.refresh_token)).json()
    const all = [old, second, third].flatMap((pair) => [pair.access_token, pair.refresh_token])
    expect(new Set(all).size).toBe(6)
  })

  it('requires a refresh_token, and refuses garbage', async () => {
    const { refresh } = await aPair()
    expect((await refresh('')).json().error).toBe('invalid_request')
    for (const garbage of ['x', makeSecret('refresh'), 'x'.repeat(60_000)]) {
      expect((await refresh(garbage)).json().error).toBe('invalid_grant')
    }
  })

  it('refuses a suspended application and a disabled account', async () => {
    const suspended = await aPair()
    await setApplicationStatus(t.db, suspended.application.clientId, 'suspended')
    expect((await suspended.refresh(suspended.old.refresh_token)).json().error).toBe('invalid_client')
    const { refresh, old, account } = await aPair()
    await setDisabled(t.db, operator, account.id, true)
    expect((await refresh(old.refresh_token)).json().error).toBe('invalid_grant')
  })

  it('stores hashes, and a seal that only the old refresh token opens (CONTRACT 5.2, 5.3)', async () => {
    const { refresh, old } = await aPair()
    const next = (await refresh(old.refresh_token)).json()
    const stored = (await textOf(t.db, 'token_pair')) + (await textOf(t.db, 'authorization_code'))
    for (const secret of [old, next].flatMap((pair) => [pair.access_token, pair.refresh_token])) {
      expect(stored).not.toContain(secret)
      expect(stored).not.toContain(Buffer.from(secret).toString('hex'))
    }
  })

  it('wipes the seal when the grace has ended (CONTRACT 5.3)', async () => {
    const { refresh, old } = await aPair()
    await refresh(old.refresh_token)
    await pass(t.db, 300)
    await wipeSeals(t.db, 100)
    expect(await storedPair(t.db, old.refresh_token)).toMatchObject({ sealedSuccessor: null })
  })
})
