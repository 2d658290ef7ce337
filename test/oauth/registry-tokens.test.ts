import { describe, expect, it } from 'vitest'
import { aMember, aRepository } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { basicOf } from '../support/oauth-actors.ts'
import { anAuthorizedApplication } from '../support/token-client.ts'

describe('an access token as the password of svc at a registry', () => {
  const t = useApp()

  async function aVisit(scopes: string[]) {
    const actor = await anAuthorizedApplication(t, { scopes })
    const repository = await aRepository(t.db)
    await aMember(t.db, actor.account, repository, 'developer')
    const pair = await actor.tokens()
    const url = `/${repository.path}/-/packages/packages.json`
    const pull = (token = pair.access_token) =>
      t.app.inject({ url, headers: { authorization: basicOf('svc', token) } })
    return { ...actor, pair, pull }
  }

  it('pulls like a personal access token does, until it is revoked (OAUTH 135)', async () => {
    const { pair, pull, revoke } = await aVisit(['registry-package:r'])
    expect((await pull()).statusCode).toBe(200)
    expect((await pull(pair.refresh_token)).statusCode).toBe(401)
    await revoke(pair.access_token)
    expect((await pull()).statusCode).toBe(401)
  })

  it('is limited to its scopes (OAUTH 135)', async () => {
    const { pull } = await aVisit(['account-profile:r'])
    const response = await pull()
    expect(response.statusCode).toBe(403)
    expect(response.json()).toMatchObject({ errcode: 16, errmsg: 'not authorized' })
  })
})
