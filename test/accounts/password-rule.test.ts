import { beforeAll, describe, expect, it } from 'vitest'
import { insertInvitation, makeInvitationToken } from '../../src/accounts/invitations.ts'
import { invite } from '../../src/accounts/invite.ts'
import { makeResetToken } from '../../src/accounts/password-resets.ts'
import { findPasswordProblem } from '../../src/accounts/passwords.ts'
import { makeProgram } from '../../src/commands/program.ts'
import { operator } from '../../src/domain/principal.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { storedAccount } from '../support/account-rows.ts'
import {
  type AccountActor,
  aName,
  anAccount,
  anAdminToken,
  cookiesOf,
  csrfTokenIn,
  password as current,
  post,
  signIn,
} from '../support/actors.ts'
import { callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'

// Sign-ups need a mail server; no mail is sent here.
const t = useApp({ SIGN_UP: 'open', SMTP_URL: 'smtp://127.0.0.1:9', MAIL_FROM: 'svc@example.com' })

/** The ways to choose a password. Each function returns the status and the message for a rejected password. */
const ways: Record<
  string,
  (password: string, username: string) => Promise<{ status: number; text: string }>
> = {
  'the account page': async (password, username) => {
    const cookie = await signIn(t.app, await anAccount(t.db, { username }))
    const page = await t.app.inject({ url: '/settings/account', headers: { cookie } })
    return read(
      await post(t.app, '/settings/account/password', cookie, {
        csrf_token: csrfTokenIn(page),
        current_password: current,
        new_password: password,
        repeated_password: password,
      }),
    )
  },
  'a link for a new password': async (password, username) => {
    const { id } = await anAccount(t.db, { username })
    const token = (await makeResetToken(t.db, operator, id)) ?? ''
    return send('/password-reset', { token, new_password: password, repeated_password: password })
  },
  'an invitation': async (password, username) => {
    const { url } = await invite(t.db, t.config, operator, { email: null, target: null })
    return send('/invitations/account', accountForm(url?.split('token=')[1] ?? '', username, password))
  },
  'a sign-up': async (password, username) => {
    const email = `${username}@example.com`
    const draft = {
      madeBy: 'sign-up',
      inviterId: null,
      email,
      isSentByMail: true,
      token: null,
      target: null,
    } as const
    const { id } = await insertInvitation(t.db, operator, draft)
    const made = await makeInvitationToken(t.db, id)
    return send('/invitations/account', accountForm(made?.token ?? '', username, password))
  },
  'POST /api/accounts': async (password, username) => {
    const response = await callApi(t, adminToken, 'POST', '/api/accounts', { username, password })
    return read(response)
  },
  'PUT /api/accounts/<username>/password': async (password, username) => {
    await anAccount(t.db, { username })
    return read(await callApi(t, adminToken, 'PUT', `/api/accounts/${username}/password`, { password }))
  },
  'svc account create': (password, username) =>
    refusedBy(['account', 'create', username, '--password', password]),
  'svc account set-password': (password, username) =>
    refusedBy(['account', 'set-password', username, '--password', password]),
}

let admin: AccountActor
let adminToken: string
beforeAll(async () => {
  admin = await anAccount(t.db, { isAdmin: true })
  adminToken = await anAdminToken(t.db, admin, { scopes: ['group-manage:rw'] })
})

const accountForm = (token: string, username: string, password: string) => ({
  token,
  username,
  new_password: password,
  repeated_password: password,
})

async function send(url: string, fields: Record<string, string>) {
  const form = await t.app.inject('/login')
  return read(await post(t.app, url, cookiesOf(form), { csrf_token: csrfTokenIn(form), ...fields }))
}

const read = ({ statusCode, body }: { statusCode: number; body: string }) => ({
  status: statusCode,
  text: body,
})

/** A command refuses a password before it opens the database. */
async function refusedBy(words: string[]) {
  try {
    const program = await makeProgram('1')
    await program.exitOverride().parseAsync(['node', 'svc', ...words])
  } catch (error) {
    return { status: 400, text: error instanceof Error ? error.message : '' }
  }
  return { status: 200, text: '' }
}

const username = () => aName('ann-of-the-hills')

describe('the password rule', () => {
  const cases: [what: string, choose: (username: string) => string][] = [
    ['short', () => 'eleven-char'],
    ['common', () => 'Christopher1'],
    ['the username, in capitals', (name) => name.toUpperCase()],
    ['longer than 1024 bytes', () => 'é'.repeat(513)],
  ]
  it.each(
    Object.entries(ways).flatMap(([where, enter]) =>
      cases.map(([what, choose]) => [where, what, enter, choose] as const),
    ),
  )('%s takes no password that is %s', async (_where, _what, enter, choose) => {
    const name = username()
    const password = choose(name)
    const problem = findPasswordProblem(password, name)
    expect(problem).not.toBeNull()
    const { status, text } = await enter(password, name)
    expect([status, text]).toEqual([400, expect.stringContaining(problem ?? '-')])
    expect(text).not.toContain(password)
  })

  it.each(Object.entries(ways).filter(([where]) => !where.startsWith('svc ')))(
    '%s accepts twelve characters of any kind',
    async (_where, enter) => {
      const name = username()
      const { status } = await enter('é ∞ 12 ñ x 9', name)
      expect(status).toBeLessThan(400)
      const { id } = (await storedAccount(t.db, { username: name })) ?? expect.fail()
      const events = await listEvents(t.db, { subjectId: id }, { after: null, limit: 9 })
      expect(events.map(({ action }) => action)).toEqual(
        expect.arrayContaining([expect.stringMatching(/^(?:password-changed|account-created)$/)]),
      )
    },
  )

  it('refuses the password as the new username', async () => {
    const account = await anAccount(t.db)
    const taken = `a-long-${aName('word')}`
    const cookie = await signIn(t.app, account)
    const page = await t.app.inject({ url: '/settings/account', headers: { cookie } })
    const csrf_token = csrfTokenIn(page)
    const changed = await post(t.app, '/settings/account/password', cookie, {
      csrf_token,
      current_password: current,
      new_password: taken.toUpperCase(),
      repeated_password: taken.toUpperCase(),
    })
    const newCookie = cookiesOf(changed)
    const own = await t.app.inject({ url: '/settings/account', headers: { cookie: newCookie } })
    const renamed = await post(t.app, '/settings/account/sign-in', newCookie, {
      csrf_token: csrfTokenIn(own),
      current_password: taken.toUpperCase(),
      username: taken,
      email: '',
    })
    expect([renamed.statusCode, renamed.body]).toEqual([
      400,
      expect.stringContaining('The password is the username'),
    ])
  })
})
