import { describe, expect, it } from 'vitest'
import { buildApp } from '../../src/web/server/app.ts'
import { openLog } from '../../src/web/server/log.ts'
import { csrfTokenIn, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { open } from '../support/browse.ts'
import { anAuthorizedApplication, works } from '../support/token-client.ts'

describe('withdrawing an authorization', () => {
  const t = useApp()

  async function aGrant() {
    const grant = await anAuthorizedApplication(t)
    const cookie = await signIn(t.app, grant.account)
    const page = await open(t, '/settings/authorizations', cookie)
    const form = { csrf_token: csrfTokenIn(page), authorization: grant.authorization.id }
    return { ...grant, withdraw: () => post(t.app, '/settings/authorizations/withdraw', cookie, form) }
  }

  it('revokes every token and unredeemed code at once, on a second process too (SPEC 3)', async () => {
    const { tokens, refresh, newCode, exchange, withdraw } = await aGrant()
    const first = await tokens()
    const second = (await refresh(first.refresh_token)).json()
    const third = await tokens()
    const code = await newCode()
    const otherProcess = await buildApp({ config: t.config, db: t.db }, openLog('silent'))
    for (const app of [t.app, otherProcess]) expect(await works({ app }, third.access_token)).toBe(true)

    expect((await withdraw()).statusCode).toBe(303)

    for (const app of [t.app, otherProcess]) {
      for (const { access_token } of [first, second, third])
        expect(await works({ app }, access_token)).toBe(false)
    }
    for (const { refresh_token } of [first, second, third]) {
      expect((await refresh(refresh_token)).json()).toMatchObject({ error: 'invalid_grant' })
    }
    expect((await exchange(code)).json()).toMatchObject({ error: 'invalid_grant' })
    await otherProcess.close()
  })

  it('leaves no token that works when exchanges and refreshes race with it', async () => {
    for (let round = 0; round < 5; round++) {
      const { tokens, refresh, newCode, exchange, withdraw } = await aGrant()
      const { refresh_token } = await tokens()
      const codes = await Promise.all(Array.from({ length: 6 }, () => newCode()))
      const [responses] = await Promise.all([
        Promise.all([...codes.map((code) => exchange(code)), refresh(refresh_token), refresh(refresh_token)]),
        withdraw(),
      ])
      for (const response of responses) {
        expect(response.statusCode).toBeOneOf([200, 400])
        if (response.statusCode === 200) expect(await works(t, response.json().access_token)).toBe(false)
      }
    }
  })
})
