import { expect, it } from 'vitest'
import { findAccountDetails } from '../../src/accounts/accounts.ts'
import { listIdentityEvents } from '../../src/accounts/identity-events.ts'
import { listTokensOf } from '../../src/accounts/personal-tokens.ts'
import { anAccount, aPersonalToken, csrfTokenIn, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'

const t = useApp()

/** A site administrator, signed in, who opens pages and sends their questions. */
async function anAdministrator() {
  const account = await anAccount(t.db)
  await t.db.query('update account set is_admin = true where id = $1', [account.id])
  const cookie = await signIn(t.app, account)
  const open = (url: string) => t.app.inject({ url, headers: { cookie } })
  return {
    account,
    open,
    /** Follows the link of a page to its question, and sends the form of the question. */
    decide: async (page: string, link: RegExp) => {
      const [, href = 'none'] = link.exec((await open(page)).body) ?? []
      const question = await open(href.replaceAll('&amp;', '&'))
      expect(question.body, href).toContain('data-question')
      const [, action = 'none'] =
        /<form class="card measure" method="post" action="([^"]+)"/.exec(question.body) ?? []
      const hidden = [...question.body.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)]
      const fields = Object.fromEntries(hidden.map(([, name = '', value = '']) => [name, value]))
      return post(t.app, action, cookie, { ...fields, csrf_token: csrfTokenIn(question) })
    },
  }
}

it('asks before a session, and all other sessions, are ended', async () => {
  const { account, decide, open } = await anAdministrator()
  for (const link of [
    /href="(\/settings\/sessions\/end\?session=[^"]+)" data-confirm/,
    /href="([^"]+end-others)" data-confirm/,
  ]) {
    const other = await signIn(t.app, account)
    expect((await decide('/settings/sessions', link)).headers.location).toBe('/settings/sessions?ended=1')
    const gone = await t.app.inject({ url: '/settings/sessions', headers: { cookie: other } })
    expect(gone.statusCode).toBe(303)
  }
  expect((await open(`/settings/sessions/end?session=${'0'.repeat(64)}`)).statusCode).toBe(404)
})

it('asks before one signs out everywhere, and leaves a notice on the sign-in page', async () => {
  const { decide } = await anAdministrator()
  const left = await decide('/settings/account', /href="([^"]+sign-out-everywhere)" data-confirm/)
  expect(left.headers.location).toBe('/login')
  const notice = left.cookies.find(({ name }) => name === 'svc_notice')?.value ?? ''
  const landed = await t.app.inject({ url: '/login', headers: { cookie: `svc_notice=${notice}` } })
  expect(landed.body).toContain('You are signed out.')
})

it('asks before an invitation is withdrawn', async () => {
  const { decide, open, account } = await anAdministrator()
  const cookie = await signIn(t.app, account)
  const page = await t.app.inject({ url: '/admin/invitations', headers: { cookie } })
  await post(t.app, '/admin/invitations', cookie, {
    csrf_token: csrfTokenIn(page),
    email: '',
    role: 'developer',
  })
  const done = await decide('/admin/invitations', /href="([^"]+withdraw\?id=\d+)" data-confirm/)
  expect(done.headers.location).toBe('/admin/invitations')
  expect((await open('/admin/invitations')).body).toContain('There are no open invitations.')
})

it('asks an administrator before one session of an account ends, and before one token is revoked', async () => {
  const { account: admin, decide, open } = await anAdministrator()
  const [other, third] = [await anAccount(t.db), await anAccount(t.db)]
  await signIn(t.app, other)
  await signIn(t.app, other)
  for (const name of ['laptop', 'build server']) await aPersonalToken(t.db, other, { name })
  await aPersonalToken(t.db, third, { name: 'not theirs' })
  const page = `/admin/accounts/${other.username}`
  const { body } = await open(page)
  expect(body).toContain('laptop')
  expect(body).not.toContain('not theirs')
  for (const path of ['sessions/end\\?session=[0-9a-f]{64}', 'tokens/revoke\\?id=\\d+']) {
    const done = await decide(page, new RegExp(`href="([^"]+${path})" data-confirm`))
    expect([done.statusCode, done.headers.location]).toEqual([303, page])
  }
  expect(await findAccountDetails(t.db, other.username)).toMatchObject({ sessions: 1, tokens: 1 })
  const events = await listIdentityEvents(t.db, { accountId: other.id }, { after: null, limit: 2 })
  expect(events.map(({ action, actor, via }) => [action, actor, via])).toEqual([
    ['token-revoked', admin.username, 'browser'],
    ['session-ended', admin.username, 'browser'],
  ])
  const own = await open(`/admin/accounts/${admin.username}`)
  expect(own.body).toContain('This browser')
  expect(own.body).not.toContain('sessions/end')
  // The session or token of another account is not found.
  const [theirs] = await listTokensOf(t.db, third.id, { after: null, limit: 1 })
  expect((await open(`${page}/tokens/revoke?id=${theirs?.id}`)).statusCode).toBe(404)
  expect((await open(`${page}/sessions/end?session=${'0'.repeat(64)}`)).statusCode).toBe(404)
  expect((await open(`${page}/sessions/end?session=`)).statusCode).toBe(400)
})

it.each(['make-admin', 'unmake-admin', 'end-sessions', 'revoke-all', 'disable'])(
  'asks an administrator before %s',
  async (act) => {
    const { decide, open } = await anAdministrator()
    const other = await anAccount(t.db)
    await t.db.query('update account set is_admin = $2 where id = $1', [other.id, act === 'unmake-admin'])
    const page = `/admin/accounts/${other.username}`
    const done = await decide(page, new RegExp(`href="([^"]+ask\\?act=${act})" data-confirm`))
    expect([done.statusCode, done.headers.location]).toEqual([303, page])
    expect((await open(`${page}/ask?act=nothing`)).statusCode).toBe(400)
    expect((await open('/admin/accounts/no-such-one/ask?act=disable')).statusCode).toBe(404)
  },
)
