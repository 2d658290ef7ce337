import { describe, expect, it } from 'vitest'
import { enableAccount, replacePassword } from '../../src/accounts/account-lifecycle.ts'
import { invite } from '../../src/accounts/invite.ts'
import { makeResetToken } from '../../src/accounts/password-resets.ts'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { addKnownBrowser, aSignInStep, knowsBrowser } from '../support/account-rows.ts'
import {
  type AccountActor,
  aDeployToken,
  aGroup,
  aGroupMember,
  anAccount,
  anAdminToken,
  aPersonalToken,
  cookiesOf,
  csrfTokenIn,
  post,
  signIn,
} from '../support/actors.ts'
import { anAdministrator } from '../support/admin-actors.ts'
import { callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, submitConsent } from '../support/browse.ts'
import { countEvents } from '../support/event-rows.ts'
import { lockRow, untilWaiting } from '../support/locks.ts'
import { anAccessToken, anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { databaseUrl } from '../support/program.ts'
import { countRows } from '../support/rows.ts'
import { runCommand } from '../support/run-command.ts'
import { liveTokenOf } from '../support/token-rows.ts'

const t = useApp()
const chosen = 'a new and longer password'

/** A person who can act in every way: with a session, tokens, an application, and what the person made for others. */
async function aPerson() {
  const account = await anAccount(t.db)
  const group = await aGroup(t.db)
  await aGroupMember(t.db, account, group, 'admin')
  const cookie = await signIn(t.app, account)
  await addKnownBrowser(t.db, account, 'another browser')
  const byPerson = { ...operator, accountId: account.id }
  const tokens = {
    personal: await aPersonalToken(t.db, account),
    access: await anAccessToken(t.db, await anAuthorization(t.db, account, await anApplication(t.db))),
    deploy: await aDeployToken(t.db, group, { madeBy: account }),
  }
  const draft = { email: null, target: { groupId: group.id, role: 'admin' as const } }
  const { url: invitation } = await invite(t.db, t.config, byPerson, draft)
  /** Names what still works. */
  const working = async () => {
    const found: string[] = []
    for (const [kind, token] of Object.entries(tokens)) {
      if (await liveTokenOf(t.db, token)) found.push(kind)
    }
    if ((await open(t, '/settings/account', cookie)).statusCode === 200) found.push('session')
    if (
      (await open(t, new URL(invitation ?? '').pathname + new URL(invitation ?? '').search)).statusCode ===
      200
    )
      found.push('invitation')
    if (await knowsBrowser(t.db, account, 'another browser')) found.push('known browser')
    return found
  }
  return { ...account, group, cookie, tokens, working }
}

const everything = ['personal', 'access', 'deploy', 'session', 'invitation', 'known browser']

function svc(...words: string[]) {
  return runCommand(words, { DATABASE_URL: databaseUrl(t.connection), BASE_URL: 'https://svc.example.com' })
}

async function onPage(below: string, fields: Record<string, string>) {
  const { cookie, csrf_token } = await anAdministrator(t)
  return post(t.app, `/admin/accounts/${below}`, cookie, { csrf_token, ...fields })
}

async function throughApi(method: 'PATCH' | 'PUT', below: string, body: object) {
  const token = await anAdminToken(t.db, await anAccount(t.db, { isAdmin: true }), {
    scopes: ['group-manage:rw'],
  })
  return callApi(t, token, method, `/api/accounts/${below}`, body)
}

async function withLink({ id }: AccountActor, fields: Record<string, string>) {
  const token = (await makeResetToken(t.db, operator, id)) ?? ''
  const form = await t.app.inject(`/password-reset?token=${token}`)
  return post(t.app, '/password-reset', cookiesOf(form), {
    csrf_token: csrfTokenIn(form),
    token,
    new_password: chosen,
    repeated_password: chosen,
    ...fields,
  })
}

const yes = { end_everything: 'yes' }

describe('a password reset and the disabling of an account', () => {
  it.each<[string, (account: AccountActor) => Promise<unknown>]>([
    ['disabling it on the page', ({ username }) => onPage(username, { act: 'disable', ...yes })],
    [
      'disabling it through the API',
      ({ username }) => throughApi('PATCH', username, { disabled: true, end_everything: true }),
    ],
    [
      'svc account disable',
      ({ username }) => svc('account', 'disable', username, '--end-everything', '--force'),
    ],
    ['a new password on the page', ({ username }) => onPage(`${username}/password`, yes)],
    [
      'a new password through the API',
      ({ username }) => throughApi('PUT', `${username}/password`, { end_everything: true }),
    ],
    [
      'svc account set-password',
      ({ username }) => svc('account', 'set-password', username, '--end-everything', '--force'),
    ],
    ['the page of a reset link', (account) => withLink(account, yes)],
  ])('end everything on request: %s', async (_way, act) => {
    const person = await aPerson()
    const other = await aPerson()
    expect(await person.working()).toEqual(everything)
    await act(person)
    expect(await person.working()).toEqual([])
    await enableAccount(t.db, operator, person.id)
    expect(await person.working()).toEqual([])
    expect(await other.working()).toEqual(everything)
    const revoked = { groupId: person.group.id, action: 'revoke-deploy-token' }
    expect(await countEvents(t.db, revoked)).toBe(1)
  })

  it.each<[string, (account: AccountActor) => Promise<unknown>, string[], string[]]>([
    [
      'disabling',
      ({ username }) => onPage(username, { act: 'disable' }),
      ['deploy', 'known browser'],
      ['personal', 'access', 'deploy', 'invitation', 'known browser'],
    ],
    [
      'a new password',
      ({ username }) => onPage(`${username}/password`, {}),
      ['personal', 'access', 'deploy', 'invitation'],
      ['personal', 'access', 'deploy', 'invitation'],
    ],
    [
      'a reset link',
      (account) => withLink(account, {}),
      ['personal', 'access', 'deploy', 'invitation'],
      ['personal', 'access', 'deploy', 'invitation'],
    ],
  ])('end only the sessions otherwise, which nothing revives: %s', async (_way, act, then, enabled) => {
    const person = await aPerson()
    await act(person)
    expect(await person.working()).toEqual(then)
    await enableAccount(t.db, operator, person.id)
    expect(await person.working()).toEqual(enabled)
  })

  it('end reset links, sign-ins that wait for a second factor, and consent pages, which enabling revives not', async () => {
    const person = await aPerson()
    const link = (await makeResetToken(t.db, operator, person.id)) ?? ''
    await aSignInStep(t.db, person)
    await open(t, authorizeLink(await anApplication(t.db)), person.cookie)
    const waiting = async () => {
      const steps = await countRows(t.db, 'sign_in_step', { accountId: person.id })
      const requests = await countRows(t.db, 'authorization_request', { accountId: person.id })
      return { steps, requests, link: (await open(t, `/password-reset?token=${link}`)).statusCode }
    }
    expect(await waiting()).toEqual({ steps: 1, requests: 1, link: 200 })
    await onPage(person.username, { act: 'disable' })
    await enableAccount(t.db, operator, person.id)
    expect(await waiting()).toEqual({ steps: 0, requests: 0, link: 410 })
  })

  it('offer it on their pages, with the reason', async () => {
    const person = await aPerson()
    const { cookie } = await anAdministrator(t)
    const link = (await makeResetToken(t.db, operator, person.id)) ?? ''
    for (const url of [
      `/admin/accounts/${person.username}/ask?act=disable`,
      `/admin/accounts/${person.username}/password`,
      `/password-reset?token=${link}`,
    ]) {
      expect((await open(t, url, cookie)).body).toMatch(
        /name="end_everything" value="yes">\s*<span>.*End everything|end everything/,
      )
    }
  })

  it('keep the choice when the new password is refused', async () => {
    const person = await aPerson()
    const refused = await withLink(person, { new_password: 'short', repeated_password: 'short', ...yes })
    expect([refused.statusCode, refused.body.includes('value="yes" checked')]).toEqual([400, true])
    expect(await person.working()).toEqual(everything)
  })

  it('refuse end_everything without disabled: true, and change nothing', async () => {
    const person = await aPerson()
    for (const body of [{ end_everything: true }, { disabled: false, end_everything: true }]) {
      const refused = await throughApi('PATCH', person.username, body)
      expect([refused.statusCode, refused.json().errmsg]).toEqual([
        400,
        'end_everything: is only for disabling: send disabled: true too',
      ])
    }
    expect(await person.working()).toEqual(everything)
  })

  it('say how many things a command ended', async () => {
    const person = await aPerson()
    const { stdout } = await svc(
      'account',
      'disable',
      person.username,
      '--end-everything',
      '--force',
      '--json',
    )
    expect(JSON.parse(stdout)).toEqual({
      username: person.username,
      disabled: true,
      ended: { sessions: 1, tokens: 1, applications: 1, deploy_tokens: 1, invitations: 1 },
    })
  })
})

describe('a request that waits while everything of its account ends', () => {
  it.each<
    [
      string,
      (id: string) => Promise<number>,
      (
        person: Awaited<ReturnType<typeof aPerson>>,
      ) => Promise<{ send: () => Promise<{ statusCode: number }> }>,
    ]
  >([
    [
      'a personal access token',
      (id) => countRows(t.db, 'personal_token', { accountId: id, revokedAt: null }),
      async (person) => {
        const form = await open(t, '/settings/tokens', person.cookie)
        const fields = {
          name: 'late',
          scope: 'registry-package:r',
          resource_scope: 'all',
          lifetime_in_days: '7',
        }
        return {
          send: () =>
            post(t.app, '/settings/tokens', person.cookie, { csrf_token: csrfTokenIn(form), ...fields }),
        }
      },
    ],
    [
      'a deploy token',
      (id) => countRows(t.db, 'deploy_token', { madeBy: id, revokedAt: null }),
      async (person) => {
        const token = await aPersonalToken(t.db, person, {
          scopes: ['group-manage:rw', 'registry-package:rw', 'repo-basic-info:r'],
        })
        const body = { name: 'late', right: 'publish', expires_in_days: 7 }
        return {
          send: () => callApi(t, token, 'POST', `/api/groups/${person.group.name}/deploy-tokens`, body),
        }
      },
    ],
    [
      'a deploy token on its page',
      (id) => countRows(t.db, 'deploy_token', { madeBy: id, revokedAt: null }),
      async (person) => {
        const url = `/${person.group.name}/-/deploy-tokens`
        const form = await open(t, url, person.cookie)
        const fields = { name: 'late', right: 'read', resource_scope: 'all', lifetime_in_days: '7' }
        return { send: () => post(t.app, url, person.cookie, { csrf_token: csrfTokenIn(form), ...fields }) }
      },
    ],
    [
      'an invitation',
      (id) => countRows(t.db, 'invitation', { inviterId: id, withdrawnAt: null }),
      async (person) => {
        const token = await aPersonalToken(t.db, person, { scopes: ['group-manage:rw'] })
        return {
          send: () =>
            callApi(t, token, 'POST', `/api/groups/${person.group.name}/invitations`, { role: 'admin' }),
        }
      },
    ],
    [
      'an authorization',
      (id) => countRows(t.db, 'account_authorization', { accountId: id, endedAt: null }),
      async (person) => {
        const page = await open(t, authorizeLink(await anApplication(t.db)), person.cookie)
        return { send: () => submitConsent(t, page, person.cookie, 'approve') }
      },
    ],
  ])('does not make %s', async (_what, count, prepare) => {
    const control = await aPerson()
    expect([200, 201, 302]).toContain((await (await prepare(control)).send()).statusCode)
    const person = await aPerson()
    const { send } = await prepare(person)
    let response: Promise<{ statusCode: number }> | undefined
    await transaction(t.db, async (tx) => {
      await lockRow(tx, 'account', person)
      response = send()
      await untilWaiting(t.db)
      await replacePassword(tx, operator, person.id, 'another hash', true)
    })
    expect([401, 403]).toContain((await response)?.statusCode)
    expect(await count(person.id)).toBe(0)
  })
})
