import { describe, expect, it } from 'vitest'
import { aGroup, aGroupMember, aMember, anAccount, aRepository, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'

describe('GET /', () => {
  const t = useApp()

  it('offers to sign in', async () => {
    const answer = await t.app.inject('/')
    expect(answer.statusCode).toBe(200)
    expect(answer.body).toContain('href="/login"')
    expect(answer.cookies).toEqual([])
  })

  it("lists the account's repositories, through their group too, and no others", async () => {
    const account = await anAccount(t.db)
    const group = await aGroup(t.db)
    await aGroupMember(t.db, account, group, 'guest')
    const ofGroup = await aRepository(t.db, { group, description: 'Ours & <theirs>' })
    const own = await aRepository(t.db)
    await aMember(t.db, account, own, 'admin')
    const foreign = await aRepository(t.db, { visibility: 'public' })
    const cookie = await signIn(t.app, account)
    const { body } = await t.app.inject({ url: '/', headers: { cookie } })
    expect(body).toContain(`href="/${ofGroup.path}"`)
    expect(body).toContain('Ours &amp; &lt;theirs&gt;')
    expect(body).toContain(`href="/${own.path}"`)
    expect(body).not.toContain(foreign.path)
  })
})
