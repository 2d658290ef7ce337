import { describe, expect, it } from 'vitest'
import { operator, type Principal } from '../../src/domain/principal.ts'
import { hashSecret, makeSecret } from '../../src/domain/secrets.ts'
import {
  exchangeCodes,
  type PresentedClient,
  refreshPairs,
  revokeTokens,
} from '../../src/oauth/token-pairs.ts'
import { useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import { lockRows, openTransaction, untilWaiting } from '../support/locks.ts'
import { type ApplicationActor, anApplication } from '../support/oauth-actors.ts'
import { countEndedGrants, endAuthorization, planOfLiveToken } from '../support/oauth-rows.ts'
import { changesOf } from '../support/row-changes.ts'
import { countRows } from '../support/rows.ts'
import { anAuthorizedApplication, pass, works } from '../support/token-client.ts'

const lifetimes = { accessSeconds: 60, refreshSeconds: 60, graceSeconds: 300 }

const by: Principal = { ...operator, via: 'application', ip: '192.0.2.1' }

function clientOf({ clientId, clientSecret }: ApplicationActor): PresentedClient {
  return { clientId, secretHash: hashSecret(clientSecret), ip: '192.0.2.1' }
}

function anExchange(application: ApplicationActor, code: string) {
  return {
    client: clientOf(application),
    codeHash: hashSecret(code),
    redirectUri: null,
    codeChallenge: null,
    resources: null,
    accessHash: hashSecret(makeSecret('access')),
    refreshHash: hashSecret(makeSecret('refresh')),
    by,
  }
}

function aRefresh(application: ApplicationActor, refreshToken: string, differences: { scope?: string } = {}) {
  return {
    client: clientOf(application),
    refreshHash: hashSecret(refreshToken),
    scope: null,
    resources: null,
    accessHash: hashSecret(makeSecret('access')),
    nextRefreshHash: hashSecret(makeSecret('refresh')),
    sealedSuccessor: Buffer.from(makeSecret('code')),
    ...differences,
  }
}

describe('calls that share a statement behave as racing requests do (CONTRACT 5.5)', () => {
  const t = useApp()

  it('exchange each code once, each call separately and in order (OAUTH 86)', async () => {
    const { application, newCode } = await anAuthorizedApplication(t)
    const stranger = await anApplication(t.db)
    const [one, other] = [await newCode(), await newCode()]
    const calls = [
      anExchange(application, one),
      anExchange(application, makeSecret('code')),
      anExchange({ ...application, clientSecret: 'wrong' }, other),
      anExchange(stranger, other),
      anExchange(application, other),
      anExchange(application, one),
    ]
    const outcomes = (await exchangeCodes(t.db, lifetimes, calls)).map(({ outcome }) => outcome)
    expect(outcomes).toEqual([
      'issued',
      'invalid_grant',
      'invalid_client',
      'invalid_grant',
      'issued',
      // Within three seconds, a second use is a double click.
      'invalid_grant',
    ])
    expect(await countRows(t.db, 'token_pair', { codeHash: [one, other].map(hashSecret) })).toBe(2)
  })

  it('refresh one token once, and repeat its pair (OAUTH 108)', async () => {
    const { application, tokens } = await anAuthorizedApplication(t)
    const [one, other] = [await tokens(), await tokens()]
    const calls = [one, other, one, one].map(({ refresh_token }) => aRefresh(application, refresh_token))
    const results = await refreshPairs(t.db, lifetimes, calls)
    expect(results.map(({ outcome }) => outcome)).toEqual(['issued', 'issued', 'repeated', 'repeated'])
    for (const i of [2, 3]) expect(results[i]).toMatchObject({ sealedPair: calls[0]?.sealedSuccessor })
  })

  it('refuse only the call with a wider scope (OAUTH 113)', async () => {
    const { application, tokens } = await anAuthorizedApplication(t)
    const [one, other] = [await tokens(), await tokens()]
    const results = await refreshPairs(t.db, lifetimes, [
      aRefresh(application, one.refresh_token, { scope: 'repo-delete:rw' }),
      aRefresh(application, other.refresh_token, { scope: 'account-profile:r' }),
      aRefresh(application, one.refresh_token),
    ])
    expect(results).toMatchObject([
      { outcome: 'invalid_scope' },
      { outcome: 'issued', scope: 'account-profile:r' },
      { outcome: 'issued', scope: one.scope },
    ])
  })

  it('end the tokens of an authorization whose old refresh token is reused, those of this statement too (OAUTH 106)', async () => {
    const { application, tokens, refresh } = await anAuthorizedApplication(t)
    const bystander = await anAuthorizedApplication(t)
    const old = await tokens()
    await refresh(old.refresh_token)
    const [beside, theirs] = [await tokens(), await bystander.tokens()]
    await pass(t.db, 301)
    const reuse = aRefresh(application, old.refresh_token)
    const results = await refreshPairs(t.db, lifetimes, [
      aRefresh(application, beside.refresh_token),
      reuse,
      aRefresh(bystander.application, theirs.refresh_token),
    ])
    expect(results.map(({ outcome }) => outcome)).toEqual(['issued', 'reused', 'issued'])
    expect(await works(t, beside.access_token)).toBe(false)
    expect(await works(t, theirs.access_token)).toBe(true)
  })

  it('revoke each token separately, and return false for wrong credentials (OAUTH 118–121)', async () => {
    const mine = await anAuthorizedApplication(t)
    const theirs = await anAuthorizedApplication(t)
    const [one, other, third] = [await mine.tokens(), await mine.tokens(), await theirs.tokens()]
    const call = (application: ApplicationActor, token: string) => ({
      client: clientOf(application),
      tokenHash: hashSecret(token),
      by,
    })
    expect(
      await revokeTokens(t.db, [
        call(mine.application, one.access_token),
        call(mine.application, third.refresh_token),
        call({ ...mine.application, clientSecret: 'wrong' }, other.access_token),
        call(mine.application, one.access_token),
      ]),
    ).toEqual([true, true, false, true])
    expect(await Promise.all([one, other, third].map(({ access_token }) => works(t, access_token)))).toEqual([
      false,
      true,
      true,
    ])
    await revokeTokens(t.db, [
      call(mine.application, one.refresh_token),
      call(mine.application, other.access_token),
      call(theirs.application, third.access_token),
    ])
    expect(await countEndedGrants(t.db)).toBe(1)
    expect(await works(t, third.access_token)).toBe(false)
  })

  it.each([
    ['authorization-withdrawn', 'refresh_token'],
    ['token-revoked', 'access_token'],
  ] as const)('name the client of each revocation in its event: %s', async (action, token) => {
    const clients = [await anAuthorizedApplication(t), await anAuthorizedApplication(t)]
    const calls = clients.map(async ({ application, tokens }, i) => ({
      client: clientOf(application),
      tokenHash: hashSecret((await tokens())[token]),
      by: { ...by, ip: `192.0.2.${i}`, requestId: `request ${i}` },
    }))
    const made = await Promise.all(calls)
    await revokeTokens(t.db, [...made, ...made].toReversed())
    const about = { action, accountId: clients.map(({ account }) => account.id) }
    const columns = ['accountId', 'applicationId', 'via', 'ip', 'requestId'] as const
    const events = await eventsOf(t.db, about, columns)
    expect(events.toSorted((a, b) => Number(a.accountId) - Number(b.accountId))).toEqual(
      clients.map(({ account, application }, i) => ({
        accountId: account.id,
        applicationId: application.id,
        via: 'application',
        ip: `192.0.2.${i}`,
        requestId: `request ${i}`,
      })),
    )
  })

  it('see the end of a pair that was committed after their transaction began (OAUTH 116)', async () => {
    const { application, refresh, tokens } = await anAuthorizedApplication(t)
    const first = await tokens()
    const pair = (await refresh(first.refresh_token)).json()
    await pass(t.db, 300)
    const early = await openTransaction(t.db)
    await refresh(first.refresh_token)
    const [result] = await refreshPairs(early.tx, lifetimes, [aRefresh(application, pair.refresh_token)])
    await early.rollback()
    expect(result?.outcome).toBe('invalid_grant')
  })

  it('issue no token that survives a revocation which commits while they wait (OAUTH 116)', async () => {
    const { application, tokens, authorization } = await anAuthorizedApplication(t)
    const [held, free] = [await tokens(), await tokens()]
    const holder = await openTransaction(t.db)
    await lockRows(holder.tx, 'token_pair', { refreshHash: hashSecret(held.refresh_token) })
    const calls = [held, free].map(({ refresh_token }) => aRefresh(application, refresh_token))
    const waiting = refreshPairs(t.db, lifetimes, calls)
    await untilWaiting(t.db)
    await endAuthorization(t.db, authorization)
    await holder.rollback()
    expect((await waiting).map(({ outcome }) => outcome)).toEqual(['issued', 'issued'])
    const refreshHash = calls.map(({ nextRefreshHash }) => nextRefreshHash)
    expect(await countRows(t.db, 'live_pair', { refreshHash })).toBe(0)
  })

  it('refresh a pair that a revocation of its access token changes while they wait', async () => {
    const { application, tokens } = await anAuthorizedApplication(t)
    const [changed, free] = [await tokens(), await tokens()]
    const other = await openTransaction(t.db)
    await revokeTokens(other.tx, [
      { client: clientOf(application), tokenHash: hashSecret(changed.access_token), by },
    ])
    const waiting = refreshPairs(
      t.db,
      lifetimes,
      [changed, free].map(({ refresh_token }) => aRefresh(application, refresh_token)),
    )
    await untilWaiting(t.db)
    await other.commit()
    expect((await waiting).map(({ outcome }) => outcome)).toEqual(['issued', 'issued'])
    expect(await works(t, changed.access_token)).toBe(false)
  })

  it('revoke an access token whose pair a refresh changes while they wait (OAUTH 116)', async () => {
    const { application, tokens } = await anAuthorizedApplication(t)
    const { access_token, refresh_token } = await tokens()
    const other = await openTransaction(t.db)
    await refreshPairs(other.tx, lifetimes, [aRefresh(application, refresh_token)])
    const waiting = revokeTokens(t.db, [
      { client: clientOf(application), tokenHash: hashSecret(access_token), by },
    ])
    await untilWaiting(t.db)
    await other.commit()
    expect(await waiting).toEqual([true])
    expect(await works(t, access_token)).toBe(false)
  })

  it('update a superseded pair without changing an index (HOT)', async () => {
    const { application, tokens } = await anAuthorizedApplication(t)
    const pairs = await Promise.all(Array.from({ length: 40 }, () => tokens()))
    const { tx, rollback } = await openTransaction(t.db)
    const tables = ['token_pair', 'authorization_grant', 'account_authorization']
    const before = await changesOf(tx, tables)
    await refreshPairs(
      tx,
      lifetimes,
      pairs.map(({ refresh_token }) => aRefresh(application, refresh_token)),
    )
    const changes = (await changesOf(tx, tables)).map((row, i) => ({
      inserted: row.inserted - (before[i]?.inserted ?? 0),
      updated: row.updated - (before[i]?.updated ?? 0),
      hot: row.hot - (before[i]?.hot ?? 0),
    }))
    await rollback()
    const untouched = { inserted: 0, updated: 0, hot: 0 }
    expect(changes).toEqual([untouched, untouched, { inserted: 40, updated: 40, hot: expect.any(Number) }])
    expect(changes[2]?.hot).toBeGreaterThanOrEqual(30)
  })

  it('find a live token of any kind through the index of its hash', async () => {
    const { tx, rollback } = await openTransaction(t.db)
    const plan = await planOfLiveToken(tx, 'x')
    await rollback()
    expect(plan).toContain('token_pair_access_hash_key')
    expect(plan).toContain('personal_token_token_hash_key')
  })
})
