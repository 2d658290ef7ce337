import { expect, it } from 'vitest'
import { findAccountDetails } from '../../../src/accounts/accounts.ts'
import { listTokensOf } from '../../../src/accounts/personal-tokens.ts'
import { listEvents } from '../../../src/events/event-list.ts'
import { anIdentity, setAdministrator, storedAccount } from '../../support/account-rows.ts'
import { aMember, anAccount, aPersonalToken, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { listStoredApplications } from '../../support/application-rows.ts'
import { anApplication } from '../../support/oauth-actors.ts'
import { aPackageZip, aPublisher } from '../../support/registry-actors.ts'
import { countRows } from '../../support/rows.ts'

const t = useApp()

/** A signed-in site administrator who opens pages and sends the forms of confirmation pages. */
async function anAdministrator() {
  const account = await anAccount(t.db)
  await setAdministrator(t.db, account, true)
  const cookie = await signIn(t.app, account)
  const open = (url: string) => t.app.inject({ url, headers: { cookie } })
  return {
    account,
    open,
    /** Follows the link of a page to its question, and sends the form of the question with the fields `more`. */
    decide: async (page: string, link: RegExp, more: Record<string, string> = {}, query = '') => {
      const [, url = 'none'] = link.exec((await open(page)).body) ?? []
      const href = url + query
      const question = await open(href.replaceAll('&amp;', '&'))
      expect(question.body, href).toContain('data-question')
      const [, action = 'none'] =
        /<form class="card measure" method="post" action="([^"]+)"/.exec(question.body) ?? []
      const hidden = [...question.body.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)]
      const fields = Object.fromEntries(hidden.map(([, name = '', value = '']) => [name, value]))
      return post(t.app, action, cookie, { ...fields, ...more, csrf_token: csrfTokenIn(question) })
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
    expect((await decide('/settings/sessions', link)).headers.location).toBe('/settings/sessions')
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
  const events = await listEvents(t.db, { subjectId: other.id }, { after: null, limit: 2 })
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
    await setAdministrator(t.db, other, act === 'unmake-admin')
    const page = `/admin/accounts/${other.username}`
    const done = await decide(page, new RegExp(`href="([^"]+ask\\?act=${act})" data-confirm`))
    expect([done.statusCode, done.headers.location]).toEqual([303, page])
    expect((await open(`${page}/ask?act=nothing`)).statusCode).toBe(400)
    expect((await open(`${page}/ask?act=disable`)).body).toMatch(/<h1>Disable [\w.-]+\?<\/h1>/)
    expect((await open('/admin/accounts/no-such-one/ask?act=disable')).statusCode).toBe(404)
  },
)

/** A row of the tests below: a page, the link or form on it, and the value in the database that the act changes. */
interface DangerousAct {
  page: string
  /** Captures the URL of the question. */
  link: RegExp
  /** The fields of a form that leads to the question. */
  query?: string
  /** What the person enters on the question. */
  entered?: Record<string, string>
  /** Reads what the act changes. */
  read: () => Promise<unknown>
  after: unknown
}

async function anApplicationPage() {
  const { id, clientId } = await anApplication(t.db)
  const stored = async () => (await listStoredApplications(t.db)).find((one) => one.clientId === clientId)
  return {
    page: `/admin/applications/${clientId}`,
    status: async () => {
      const application = await stored()
      return [application?.status, application?.statusReason]
    },
    secrets: () => countRows(t.db, 'application_secret', { applicationId: id }),
  }
}

async function anAccountPage() {
  const { id, username } = await anAccount(t.db)
  await anIdentity(t.db, { id }, { issuer: 'https://id.test', subject: username, provider: 'corp' })
  const hash = async () => (await storedAccount(t.db, { id }))?.passwordHash
  const old = await hash()
  return {
    page: `/admin/accounts/${username}`,
    hasOldPassword: async () => (await hash()) === old,
    identities: () => countRows(t.db, 'account_identity', { accountId: id }),
  }
}

async function anUploadPage(account: Awaited<ReturnType<typeof anAccount>>) {
  const { repository } = await aPublisher(t)
  await aMember(t.db, account, repository, 'developer')
  const cookie = await signIn(t.app, account)
  const url = `/${repository.path}/-/upload`
  const page = await t.app.inject({ url, headers: { cookie } })
  const form = new FormData()
  form.append('csrf_token', csrfTokenIn(page))
  form.append('package', new Blob([new Uint8Array(aPackageZip('acme/lib'))]), 'lib.zip')
  const body = new Response(form)
  const headers = { cookie, 'content-type': String(body.headers.get('content-type')) }
  const payload = Buffer.from(await body.arrayBuffer())
  const sent = await t.app.inject({ method: 'POST', url, headers, payload })
  const path = String(sent.headers.location)
  return { page: path, read: async () => (await t.app.inject({ url: path, headers: { cookie } })).statusCode }
}

const dangerousActs: Record<
  string,
  (account: Awaited<ReturnType<typeof anAccount>>) => Promise<DangerousAct>
> = {
  'suspending an application': async () => {
    const { page, status } = await anApplicationPage()
    const link = /href="([^"]+ask\?act=suspend)" data-confirm/
    return { page, link, read: status, after: ['suspended', null] }
  },
  'declining an application': async () => {
    const { page, status } = await anApplicationPage()
    const after = ['declined', 'Unknown sender']
    const link = /href="([^"]+ask\?act=decline)" data-confirm/
    return { page, link, entered: { reason: 'Unknown sender' }, read: status, after }
  },
  'a new client secret': async () => {
    const { page, secrets } = await anApplicationPage()
    const link = /<form method="get" action="([^"]+secret)" data-confirm/
    return { page, link, query: '?overlap_seconds=3600', read: secrets, after: 2 }
  },
  'unlinking a provider of an account': async () => {
    const { page, identities } = await anAccountPage()
    return { page, link: /href="([^"]+identities\?issuer=[^"]+)" data-confirm/, read: identities, after: 0 }
  },
  'setting a password': async () => {
    const { page, hasOldPassword } = await anAccountPage()
    return { page, link: /href="([^"]+\/password)" data-confirm/, read: hasOldPassword, after: false }
  },
  'discarding an upload': async (account) => {
    const upload = await anUploadPage(account)
    return { ...upload, link: /href="([^"]+discard\?[^"]*)" data-confirm/, after: 404 }
  },
}

it.each(Object.entries(dangerousActs))('asks without scripts before %s', async (_what, arrange) => {
  const { account, open, decide } = await anAdministrator()
  const { page, link, query = '', entered, read, after } = await arrange(account)
  const before = await read()
  expect(before).not.toEqual(after)
  const [, url = 'none'] = link.exec((await open(page)).body) ?? []
  const question = await open(url.replaceAll('&amp;', '&') + query)
  expect(question.statusCode).toBe(200)
  // The question alone changes nothing.
  expect(await read()).toEqual(before)
  expect((await decide(page, link, entered, query)).statusCode).toBeLessThan(400)
  expect(await read()).toEqual(after)
})

it('keeps the reason of a review that was rejected, and requires one only to decline', async () => {
  const { account, open } = await anAdministrator()
  const { page } = await anApplicationPage()
  const cookie = await signIn(t.app, account)
  const csrf_token = csrfTokenIn(await t.app.inject({ url: page, headers: { cookie } }))
  const reason = 'x'.repeat(351)
  const rejected = await post(t.app, page, cookie, { csrf_token, act: 'suspend', reason })
  const [, again = 'none'] = /href="([^"]+ask\?act=suspend&amp;reason=x+)"/.exec(rejected.body) ?? []
  const field = (html: string) => /<textarea id="asked".*?<\/textarea>/s.exec(html)?.[0]
  expect(field((await open(again.replaceAll('&amp;', '&'))).body)).toContain(`>${reason}</textarea>`)
  expect(field((await open(`${page}/ask?act=suspend`)).body)).not.toContain('required')
  expect(field((await open(`${page}/ask?act=decline`)).body)).toContain('required')
  expect((await open(`${page}/ask?act=approve`)).statusCode).toBe(400)
  expect((await open(`${page}/secret?overlap_seconds=5`)).statusCode).toBe(400)
})
