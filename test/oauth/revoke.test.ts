import { describe, expect, it } from 'vitest'
import { makeSecret } from '../../src/domain/secrets.ts'
import { aPersonalToken } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { hasEnded } from '../support/oauth-rows.ts'
import { anAuthorizedApplication, ask, pass, postForm, works } from '../support/token-client.ts'

describe('POST /oauth2/revoke', () => {
  const t = useApp()

  it('ends the whole authorization with a live refresh token (OAUTH 118)', async () => {
    const { tokens, revoke, refresh, newCode, exchange, authorization } = await anAuthorizedApplication(t)
    const [one, other] = [await tokens(), await tokens()]
    const unused = await newCode()
    const response = await revoke(one.refresh_token)
    expect(response.statusCode).toBe(200)
    expect(response.headers).toMatchObject({
      'content-type': 'application/json;charset=UTF-8',
      'cache-control': 'no-store',
      pragma: 'no-cache',
    })
    expect(response.body).toBe('{}')
    for (const pair of [one, other]) {
      expect(await works(t, pair.access_token)).toBe(false)
      expect((await refresh(pair.refresh_token)).json().error).toBe('invalid_grant')
    }
    expect((await exchange(unused)).json().error).toBe('invalid_grant')
    expect(await hasEnded(t.db, authorization)).toBe(true)
  })

  it('refuses a repeated hint (OAUTH 59)', async () => {
    const { basic } = await anApplication(t.db)
    const body = 'token=a&token_type_hint=access_token&token_type_hint=access_token'
    const response = await postForm(t, '/oauth2/revoke', body, { authorization: basic })
    expect([response.statusCode, response.json().error]).toEqual([400, 'invalid_request'])
  })

  it('ends only itself with a live access token (OAUTH 119)', async () => {
    const { tokens, revoke, refresh } = await anAuthorizedApplication(t)
    const [one, other] = [await tokens(), await tokens()]
    const response = await revoke(one.access_token)
    expect(response.statusCode).toBe(200)
    expect(response.body).toBe('{}')
    expect(await works(t, one.access_token)).toBe(false)
    expect(await works(t, other.access_token)).toBe(true)
    const next = await refresh(one.refresh_token)
    expect(next.statusCode).toBe(200)
    expect(await works(t, next.json().access_token)).toBe(true)
    expect(await works(t, one.access_token)).toBe(false)
  })

  it.each(['x', makeSecret('access'), makeSecret('refresh'), '…'])(
    'responds with 200 to a token that is unknown (OAUTH 120): %s',
    async (token) => {
      const { revoke } = await anAuthorizedApplication(t)
      const response = await revoke(token)
      expect(response.statusCode).toBe(200)
      expect(response.body).toBe('{}')
    },
  )

  it('responds with 200 to expired tokens, and revokes nothing (OAUTH 120)', async () => {
    const { tokens, refresh, revoke } = await anAuthorizedApplication(t)
    const old = await tokens()
    const next = (await refresh(old.refresh_token)).json()
    await pass(t.db, 301)
    expect((await revoke(old.refresh_token)).statusCode).toBe(200)
    expect((await revoke(old.access_token)).statusCode).toBe(200)
    expect(await works(t, next.access_token)).toBe(true)
  })

  it('does not revoke tokens of other clients (OAUTH 121)', async () => {
    const { tokens, account } = await anAuthorizedApplication(t)
    const pair = await tokens()
    const personal = await aPersonalToken(t.db, account, { scopes: ['account-profile:r'] })
    const stranger = await anApplication(t.db)
    for (const token of [pair.access_token, pair.refresh_token, personal]) {
      const response = await ask(t, stranger, 'revoke', { token })
      expect(response.statusCode).toBe(200)
      expect(response.body).toBe('{}')
    }
    expect(await works(t, pair.access_token)).toBe(true)
    expect(await works(t, personal)).toBe(true)
  })

  it('responds with 401 when client authentication fails, as SPEC 4.3 says (OAUTH 122)', async () => {
    const { tokens } = await anAuthorizedApplication(t)
    const pair = await tokens()
    const response = await postForm(t, '/oauth2/revoke', `token=${pair.refresh_token}`)
    expect(response.statusCode).toBe(401)
    expect(response.headers['content-type']).toMatch(/^application\/json/)
    expect(response.json()).toEqual({ error: 'invalid_client', error_description: expect.any(String) })
    expect(await works(t, pair.access_token)).toBe(true)
  })

  it('requires a token (OAUTH 124)', async () => {
    const { revoke, application } = await anAuthorizedApplication(t)
    for (const response of [
      await revoke(''),
      await ask(t, application, 'revoke', { token_type_hint: 'x' }),
    ]) {
      expect(response.statusCode).toBe(400)
      expect(response.json().error).toBe('invalid_request')
    }
  })

  it.each(['access_token', 'refresh_token', 'nonsense'])(
    'finds the token whatever the hint says (OAUTH 125): %s',
    async (hint) => {
      const { tokens, revoke } = await anAuthorizedApplication(t)
      const pair = await tokens()
      await revoke(pair.access_token, { token_type_hint: hint })
      expect(await works(t, pair.access_token)).toBe(false)
      const next = await tokens()
      await revoke(next.refresh_token, { token_type_hint: hint })
      expect(await works(t, next.access_token)).toBe(false)
    },
  )

  it('responds with 200 again and again (OAUTH 126)', async () => {
    const { tokens, revoke } = await anAuthorizedApplication(t)
    const pair = await tokens()
    for (const token of [pair.access_token, pair.access_token, pair.refresh_token, pair.refresh_token]) {
      expect((await revoke(token)).statusCode).toBe(200)
    }
  })

  it('refuses JSON (OAUTH 127)', async () => {
    const { application } = await anAuthorizedApplication(t)
    const response = await t.app.inject({
      method: 'POST',
      url: '/oauth2/revoke',
      headers: { authorization: application.basic },
      payload: { token: 'x' },
    })
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_request')
  })

  it('ends the whole authorization with a superseded refresh token in its grace (OAUTH 128)', async () => {
    const { tokens, refresh, revoke } = await anAuthorizedApplication(t)
    const old = await tokens()
    const next = (await refresh(old.refresh_token)).json()
    await revoke(old.refresh_token)
    expect(await works(t, old.access_token)).toBe(false)
    expect(await works(t, next.access_token)).toBe(false)
    expect((await refresh(next.refresh_token)).json().error).toBe('invalid_grant')
  })
})
