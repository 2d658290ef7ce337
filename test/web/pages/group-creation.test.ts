import { describe, expect, it } from 'vitest'
import { aName, anAccount, aPersonalToken, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { asOperator, callApi } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'

const t = useApp({ GROUP_CREATION: 'admins' })

describe('/new/group', () => {
  it.each([
    ['Lea', 'lea'],
    ['Acme Corp', 'acme-corp'],
    [' _Müller & Co. ', 'm-ller-co'],
  ])('says how the name %j could be written', async (name, nearest) => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    await asOperator(t, account.id, async () => {
      const form = await t.app.inject({ url: '/new/group', headers: { cookie } })
      const refused = await post(t.app, '/new/group', cookie, { csrf_token: csrfTokenIn(form), name })
      expect(refused.statusCode).toBe(400)
      expect(refused.body).toContain(`between them. Try ${nearest}.`)
    })
  })
})

describe('with GROUP_CREATION=admins', () => {
  it('only site administrators create groups, and others see no link to it', async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const token = await aPersonalToken(t.db, account, { scopes: ['group-resource:rw'] })
    const look = (url: string) => t.app.inject({ url, headers: { cookie } })
    const csrf_token = csrfTokenIn(await look('/settings/account'))
    const send = () => post(t.app, '/new/group', cookie, { csrf_token, name: aName('group') })
    const call = () => callApi(t, token, 'POST', '/api/groups', { name: aName('group') })

    for (const url of ['/', '/search?q=nothing', '/new/repository']) {
      expect((await look(url)).body).not.toContain('/new/group')
    }
    expect((await look('/new/group')).statusCode).toBe(403)
    const refused = await send()
    expect(refused.statusCode).toBe(400)
    expect(refused.body).toContain('Only site administrators create groups here.')
    expect([(await call()).statusCode, (await call()).json().errcode]).toEqual([403, 7])

    await asOperator(t, account.id, async () => {
      for (const url of ['/admin/invitations/new', '/admin/accounts/-/new'])
        expect((await look(url)).body).toContain('Only site administrators create groups.')
      expect((await look('/')).body).toContain('/new/group')
      expect((await look('/new/group')).statusCode).toBe(200)
      expect((await send()).statusCode).toBe(303)
      expect((await call()).statusCode).toBe(201)
    })
  })
})
