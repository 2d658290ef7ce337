import { describe, expect, it } from 'vitest'
import { makeSecret } from '../../src/domain/secrets.ts'
import { setApplicationStatus } from '../../src/oauth/applications.ts'
import { aPersonalToken, aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { aCode, anApplication, anAuthorization, basicOf } from '../support/oauth-actors.ts'
import { anAuthorizedApplication, ask, pass } from '../support/token-client.ts'

describe('POST /oauth2/introspect', () => {
  const t = useApp({ AUTH_URL: 'http://svc.test/auth' })

  it('describes its own tokens to an application (OAUTH 138)', async () => {
    const { tokens, account, application } = await anAuthorizedApplication(t)
    const pair = await tokens()
    const response = await ask(t, application, 'introspect', {
      token: pair.access_token,
      token_type_hint: 'x',
    })
    expect(response.statusCode).toBe(200)
    expect(response.headers).toMatchObject({
      'content-type': 'application/json;charset=UTF-8',
      'cache-control': 'no-store',
    })
    const { iat, exp, ...rest } = response.json()
    expect(rest).toEqual({
      active: true,
      scope: 'account-profile:r account-email:r registry-package:rw',
      client_id: application.clientId,
      token_type: 'bearer',
      iss: 'http://svc.test/auth',
      sub: account.id,
      username: account.username,
      resource_scope: 'all',
    })
    expect(exp - iat).toBe(28_800)
    const refresh = (await ask(t, application, 'introspect', { token: pair.refresh_token })).json()
    expect(refresh).toMatchObject({ active: true, client_id: application.clientId })
    expect(refresh.token_type).toBe('refresh_token')
    expect(refresh.exp - refresh.iat).toBe(15_552_000)
  })

  it('describes access and personal tokens to a resource server, and refresh tokens only to their own client (OAUTH 138)', async () => {
    const { tokens, account } = await anAuthorizedApplication(t)
    const server = await anApplication(t.db, { isResourceServer: true })
    const repository = await aRepository(t.db)
    const personal = await aPersonalToken(t.db, account, {
      scopes: ['repo-code:rw'],
      resourceScope: 'specified',
      repositoryIds: [repository.id],
    })
    const pair = await tokens()
    expect((await ask(t, server, 'introspect', { token: pair.access_token })).json()).toMatchObject({
      active: true,
      token_type: 'bearer',
    })
    expect((await ask(t, server, 'introspect', { token: pair.refresh_token })).json()).toEqual({
      active: false,
    })
    const own = await anAuthorization(t.db, account, server)
    const code = await aCode(t.db, own)
    const ownPair = (await ask(t, server, 'token', { grant_type: 'authorization_code', code })).json()
    expect((await ask(t, server, 'introspect', { token: ownPair.refresh_token })).json()).toMatchObject({
      active: true,
      client_id: server.clientId,
    })
    const response = (await ask(t, server, 'introspect', { token: personal })).json()
    expect(response).toMatchObject({
      active: true,
      token_type: 'bearer',
      scope: 'repo-code:rw',
      username: account.username,
      resource_scope: 'specified',
      repositories: [repository.path],
    })
    expect(response).not.toHaveProperty('client_id')
  })

  it('returns only active: false for tokens that are dead or that an application may not see (OAUTH 138)', async () => {
    const { tokens, account, application, refresh, revoke } = await anAuthorizedApplication(t)
    const stranger = await anApplication(t.db)
    const server = await anApplication(t.db, { isResourceServer: true })
    const personal = await aPersonalToken(t.db, account)
    const old = await tokens()
    const pair = (await refresh(old.refresh_token)).json()
    const see = async (asker: typeof application, token: string) =>
      (await ask(t, asker, 'introspect', { token })).json()
    expect(await see(stranger, pair.access_token)).toEqual({ active: false })
    expect(await see(stranger, pair.refresh_token)).toEqual({ active: false })
    expect(await see(application, personal)).toEqual({ active: false })
    expect(await see(server, 'x')).toEqual({ active: false })
    expect(await see(server, makeSecret('access'))).toEqual({ active: false })
    await pass(t.db, 300)
    expect(await see(application, old.access_token)).toEqual({ active: false })
    expect(await see(application, old.refresh_token)).toEqual({ active: false })
    await revoke(pair.refresh_token)
    expect(await see(server, pair.access_token)).toEqual({ active: false })
    expect(await see(server, pair.refresh_token)).toEqual({ active: false })
    const suspended = await anAuthorizedApplication(t)
    const last = await suspended.tokens()
    expect(await see(server, last.access_token)).toMatchObject({ active: true })
    for (const status of ['suspended', 'approved'] as const) {
      await setApplicationStatus(t.db, suspended.application.clientId, status)
      expect(await see(server, last.access_token)).toEqual({ active: false })
      expect(await see(server, last.refresh_token)).toEqual({ active: false })
    }
  })

  it('names the repositories that an authorization was given for', async () => {
    const { account } = await anAuthorizedApplication(t)
    const application = await anApplication(t.db, { resourceScope: 'specified' })
    const repository = await aRepository(t.db)
    const authorization = await anAuthorization(t.db, account, application, { repositories: [repository] })
    const code = await aCode(t.db, authorization)
    const pair = (await ask(t, application, 'token', { grant_type: 'authorization_code', code })).json()
    for (const token of [pair.access_token, pair.refresh_token]) {
      expect((await ask(t, application, 'introspect', { token })).json()).toMatchObject({
        resource_scope: 'specified',
        repositories: [repository.path],
      })
    }
  })

  it('requires client authentication and a token', async () => {
    const { tokens, application } = await anAuthorizedApplication(t)
    const { access_token: token } = await tokens()
    const wrong = { basic: basicOf(application.clientId, 'wrong') }
    expect((await ask(t, wrong, 'introspect', { token })).json().error).toBe('invalid_client')
    expect((await ask(t, application, 'introspect', { token: '' })).json().error).toBe('invalid_request')
  })

  it('returns to each of concurrent calls its own result', async () => {
    const mine = await anAuthorizedApplication(t)
    const theirs = await anAuthorizedApplication(t)
    const wrong = { basic: basicOf(mine.application.clientId, 'wrong') }
    const [one, other] = await Promise.all([mine.tokens(), theirs.tokens()])
    const calls = [
      [mine.application, one.access_token, mine.account.username],
      [theirs.application, one.access_token, false],
      [wrong, one.access_token, 'invalid_client'],
      [theirs.application, other.refresh_token, theirs.account.username],
      [mine.application, makeSecret('access'), false],
    ] as const
    const rounds = [...calls, ...calls, ...calls]
    const responses = await Promise.all(rounds.map(([who, token]) => ask(t, who, 'introspect', { token })))
    const told = responses
      .map((response) => response.json())
      .map(({ error, active, username }) => error ?? (active && username))
    expect(told).toEqual(rounds.map(([, , expected]) => expected))
  })
})
