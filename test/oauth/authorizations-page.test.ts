import { describe, expect, it } from 'vitest'
import { aMember, anAccount, aRepository, cookiesOf, csrfTokenIn, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, submitConsent } from '../support/browse.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { dateAuthorizations, hasEnded, listAuthorizationIds } from '../support/oauth-rows.ts'

describe('/settings/authorizations', () => {
  const t = useApp()

  /** A person who has authorized an application and opens the page. */
  async function aGrant(differences: Parameters<typeof anApplication>[1] = {}, repository: string[] = []) {
    const account = await anAccount(t.db)
    const application = await anApplication(t.db, differences)
    const cookie = await signIn(t.app, account)
    const consent = async () => {
      const page = await open(t, authorizeLink(application, { prompt: 'consent' }), cookie)
      return await submitConsent(t, page, cookie, 'approve', { repository })
    }
    await consent()
    const [id = ''] = await listAuthorizationIds(t.db, account)
    const page = await open(t, '/settings/authorizations', cookie)
    const withdraw = (authorization = id) =>
      post(t.app, '/settings/authorizations/withdraw', cookie, {
        csrf_token: csrfTokenIn(page),
        authorization,
      })
    return { account, application, cookie, page, id, withdraw, consent }
  }

  const isLive = async (id: string) => (await hasEnded(t.db, { id })) === false

  it('asks to sign in', async () => {
    const redirect = await open(t, '/settings/authorizations')
    expect(redirect.headers.location).toMatch(/^\/login\?return=/)
  })

  it('says so when nothing is authorized', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const page = await open(t, '/settings/authorizations', cookie)
    expect(page.statusCode).toBe(200)
    expect(page.body).toContain('No application has access to your account')
  })

  it('shows each application with what it may do and since when', async () => {
    const { account, application, cookie } = await aGrant({
      name: 'Tom & Jerry',
      scopes: ['repo-manage:rw'],
    })
    await dateAuthorizations(t.db, account, new Date('2026-01-31T12:00:00Z'))
    const page = await open(t, '/settings/authorizations', cookie)
    for (const text of [
      'Tom &amp; Jerry',
      `/applications/${application.clientId}/logo`,
      application.website,
      'See and change the members and settings of your repositories',
      'Can change who has access',
      'Everything your account can access',
      '<time datetime="2026-01-31T12:00:00.000Z">31 Jan 2026<',
      'Never',
      'Withdraw',
    ]) {
      expect(page.body).toContain(text)
    }
  })

  it('asks once before an authorization is withdrawn, and shows invisible characters of a name', async () => {
    const { page } = await aGrant({ name: 'Mir\u200bror' })
    expect(page.body).toContain('Mir[U+200B]ror')
    expect(page.body).toMatch(/href="\/settings\/authorizations\/withdraw\?authorization=\d+" data-confirm/)
  })

  it('names the chosen repositories', async () => {
    const account = await anAccount(t.db)
    const application = await anApplication(t.db, { resourceScope: 'specified' })
    const repository = await aRepository(t.db)
    await aMember(t.db, account, repository, 'guest')
    const cookie = await signIn(t.app, account)
    const consent = await open(t, authorizeLink(application), cookie)
    await submitConsent(t, consent, cookie, 'approve', { repository: repository.path })
    expect((await open(t, '/settings/authorizations', cookie)).body).toContain(repository.path)
  })

  it('withdraws, says so once, and no longer lists it', async () => {
    const { withdraw, cookie, id } = await aGrant({ name: 'Mir\u200bror' })
    const redirect = await withdraw()
    expect(redirect.statusCode).toBe(303)
    const page = await open(t, String(redirect.headers.location), `${cookie}; ${cookiesOf(redirect)}`)
    expect(page.body).toContain('The authorization of Mir[U+200B]ror is withdrawn.')
    expect(page.body).not.toContain('>Withdraw')
    expect(await isLive(id)).toBe(false)
    expect((await open(t, '/settings/authorizations', cookie)).body).not.toContain('is withdrawn')
  })

  it('asks for consent again after a withdrawal, as a new authorization', async () => {
    const { withdraw, cookie, application, account, consent } = await aGrant()
    await withdraw()
    expect((await open(t, authorizeLink(application), cookie)).statusCode).toBe(200)
    await consent()
    expect(await listAuthorizationIds(t.db, account)).toHaveLength(2)
  })

  it('survives concurrent consents and withdrawals: a withdrawn authorization stays withdrawn', async () => {
    const { withdraw, consent, id } = await aGrant()
    const responses = await Promise.all([consent(), withdraw(), consent(), withdraw(), consent()])
    expect(responses.map(({ statusCode }) => statusCode)).toEqual([302, 303, 302, 303, 302])
    expect(await isLive(id)).toBe(false)
  })

  it.each(['', 'x', '-1', '99999999999999999999', '1 or 1=1'])(
    'responds with 404 for the id %j',
    async (id) => {
      const { withdraw } = await aGrant()
      expect((await withdraw(id)).statusCode).toBe(404)
    },
  )

  it("leaves another account's authorization alone, and shows nothing of it", async () => {
    const theirs = await aGrant({ name: 'Private affair' })
    const { withdraw, cookie } = await aGrant()
    const redirect = await withdraw(theirs.id)
    expect(await isLive(theirs.id)).toBe(true)
    await theirs.withdraw()
    expect((await open(t, String(redirect.headers.location), cookie)).body).not.toContain('Private affair')
  })

  it('refuses a withdrawal without the CSRF token', async () => {
    const { cookie, id } = await aGrant()
    const refusal = await post(t.app, '/settings/authorizations/withdraw', cookie, { authorization: id })
    expect(refusal.statusCode).toBe(403)
    expect(await isLive(id)).toBe(true)
  })
})
