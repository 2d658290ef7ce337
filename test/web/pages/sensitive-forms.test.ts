import { beforeAll, describe, expect, it } from 'vitest'
import { setAdministrator } from '../../support/account-rows.ts'
import {
  type AccountActor,
  aGroupMember,
  anAccount,
  csrfTokenIn,
  groupOf,
  post,
  signIn,
} from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { listForms } from '../../support/form-urls.ts'
import { anApplication } from '../../support/oauth-actors.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { countRows } from '../../support/rows.ts'
import { setProofAges } from '../../support/session-rows.ts'

const t = useApp({ BASE_URL: 'http://localhost' })

/*
 * Every form outside of /admin, by whether it asks for the password, a code or a passkey 15 minutes after the last
 * proof. `own` forms ask for the current password or for a code themselves.
 */
const kinds: Record<'asks' | 'own' | 'plain', string[]> = {
  asks: [
    '/settings/second-factor/totp',
    '/settings/second-factor/totp/confirm',
    '/settings/second-factor/recovery-codes',
    '/settings/second-factor/totp/replace',
    '/settings/second-factor/passkeys',
    '/settings/second-factor/passkeys/remove',
    '/settings/account/identities/unlink',
    '/:group/-/settings/second-factor',
    '/:group/-/projects/:project/delete',
    '/:group/:name/-/settings/delete',
    '/:group/:name/-/settings/retention',
    '/:group/:name/-/advisories',
    '/:group/:name/-/upstreams/remove',
    '/:group/:name/packages/:vendor/:package/-/versions/delete',
    '/:group/-/invitations',
    '/:group/:name/-/upstreams/forget',
    '/:group/-/invitations/new',
    '/:group/:name/-/upstreams/decide',
    '/:group/:name/packages/:vendor/:package/-/advisories/withdraw',
    '/:group/:name/packages/:vendor/:package/-/versions/release',
    '/:group/:name/packages/:vendor/:package/-/versions/end-review',
    '/:group/:name/packages/:vendor/:package/-/versions/only-trusted-publishers',
    '/:group/:name/packages/:vendor/:package/-/versions/end-only-trusted-publishers',
    '/settings/tokens',
    '/settings/tokens/new',
    '/:group/-/deploy-tokens',
    '/:group/-/deploy-tokens/new',
    '/:group/-/policies/new',
    '/:group/-/policies/:id/edit',
    '/:group/-/policies/:id/remove',
    '/:group/:name/-/deploy-tokens',
    '/:group/:name/-/deploy-tokens/new',
    '/:group/:name/-/trusted-publishers/new',
    '/:group/:name/-/sources/new',
    '/:group/:name/-/sources/:source/confirm',
    '/:group/:name/-/sources/:source/hook-secret',
    ...['/:group/-/webhooks', '/:group/:name/-/webhooks'].flatMap((url) => [
      `${url}/new`,
      `${url}/:id/edit`,
      `${url}/:id/enabled`,
      `${url}/:id/rotate`,
    ]),
  ],
  own: [
    '/settings/account/password',
    '/settings/account/sign-in',
    '/settings/account/delete',
    '/settings/second-factor/totp/remove',
    '/settings/confirm-access',
    '/settings/confirm-access/send-link',
    '/settings/confirm-access/link',
    '/login/oidc/:provider/confirm',
    // These ask for a second factor: see the tests of their page.
    '/:group/:name/-/stages/:id/release',
    '/:group/:name/-/stages/:id/reject',
  ],
  plain: [
    '/:group/-/deploy-tokens/revoke',
    '/:group/-/invitations/withdraw',
    '/:group/-/leave',
    '/:group/-/members',
    '/:group/-/members/new',
    '/:group/-/members/remove',
    '/:group/-/projects/new',
    '/:group/-/restore',
    '/:group/:name/-/deploy-tokens/revoke',
    '/:group/:name/-/trusted-publishers/remove',
    '/:group/:name/-/sources/:source/remove',
    '/:group/:name/-/sources/:source/sync',
    ...['/:group/-/webhooks', '/:group/:name/-/webhooks'].flatMap((url) => [
      `${url}/:id/ping`,
      `${url}/:id/resend`,
      `${url}/:id/remove`,
    ]),
    '/:group/:name/-/members',
    '/:group/:name/-/members/new',
    '/:group/:name/-/members/remove',
    // Asks before it makes a private repository public: see the test of all acts.
    '/:group/:name/-/settings',
    '/:group/:name/-/settings/rename',
    '/:group/:name/-/upload',
    '/:group/:name/-/upload/:id',
    '/:group/:name/-/upstreams/allow',
    '/:group/:name/-/upstreams/approve',
    '/:group/:name/-/upstreams/claim',
    '/:group/:name/-/upstreams/new',
    '/:group/:name/-/upstreams/release',
    '/:group/:name/-/upstreams/request',
    '/:group/:name/-/upstreams/set',
    '/:group/:name/-/watch',
    '/:group/-/watch',
    '/:group/:name/packages/:vendor/:package/-/advisories/new',
    '/:group/:name/packages/:vendor/:package/-/fetch',
    '/:group/:name/packages/:vendor/:package/-/versions/abandon',
    '/:group/:name/packages/:vendor/:package/-/versions/maintain',
    '/:group/:name/packages/:vendor/:package/-/versions/quarantine',
    '/:group/:name/packages/:vendor/:package/-/versions/restore',
    '/:group/:name/packages/:vendor/:package/-/versions/review',
    '/device',
    '/invitations',
    '/invitations/account',
    '/login',
    '/login/oidc/:provider/account',
    // Asks too: see the tests of single sign-on.
    '/login/oidc/:provider/link',
    '/login/passkey',
    '/login/second-factor',
    '/logout',
    '/new/group',
    '/new/repository',
    '/settings/applications/new',
    '/password-reset',
    '/password-reset/request',
    '/settings/account/profile',
    '/settings/account/revoke-all',
    '/settings/account/sign-out-everywhere',
    '/settings/account/verification',
    '/settings/authorizations/end',
    '/settings/authorizations/withdraw',
    '/settings/email-verification',
    '/settings/notifications',
    '/settings/sessions/end',
    '/settings/sessions/end-others',
    '/settings/tokens/revoke',
    '/sign-up',
    // The signed link is the proof: see the tests of notifications.
    '/unsubscribe',
  ],
}

const path = (url: string, from: Record<string, string>) =>
  url.replace(/:(\w+)/g, (_all, name: string) => from[name] ?? 'x')

describe('the forms of a person whose last proof is older than 15 minutes', () => {
  let account: AccountActor
  let place: Record<string, string>
  let allForms: string[]
  let send: (url: string, form?: Record<string, string>) => Promise<{ statusCode: number; location: string }>

  beforeAll(async () => {
    const publisher = await aPublisher(t, { role: 'admin' })
    account = publisher.account
    await setAdministrator(t.db, account, true)
    const [group = '', name = ''] = publisher.repository.path.split('/')
    await publisher.push('1.0.0')
    await aGroupMember(t.db, account, await groupOf(t.db, publisher.repository), 'admin')
    const { clientId } = await anApplication(t.db)
    const other = await anAccount(t.db)
    place = { group, name, vendor: 'acme', package: 'lib', clientId, username: other.username, id: '1' }
    const cookie = await signIn(t.app, account)
    const page = await t.app.inject({ url: '/settings/account', headers: { cookie } })
    const csrf_token = csrfTokenIn(page)
    allForms = await listForms(t.app, cookie)
    await setProofAges(t.db, '16 minutes')
    send = async (url, form = {}) => {
      const { statusCode, headers } = await post(t.app, url, cookie, { csrf_token, ...form })
      return { statusCode, location: String(headers.location ?? '') }
    }
  })

  const forms: Record<string, Record<string, string>> = {
    ...Object.fromEntries(
      ['/settings/tokens', '/settings/tokens/new'].map((url) => [
        url,
        { name: 'ci', scope: 'registry-package:rw', resource_scope: 'all', lifetime_in_days: '30' },
      ]),
    ),
    '/:group/-/settings/second-factor': { second_factor: 'optional' },
    ...Object.fromEntries(
      ['/:group', '/:group/:name'].flatMap((place) =>
        ['', '/new'].map((below) => [
          `${place}/-/deploy-tokens${below}`,
          { name: 'ci', right: 'publish', extent: 'all', lifetime_in_days: '30' },
        ]),
      ),
    ),
    '/:group/:name/packages/:vendor/:package/-/versions/delete': { version: '1.0.0' },
    '/:group/:name/packages/:vendor/:package/-/versions/release': { version: '1.0.0' },
  }

  it.each(kinds.asks)('%s asks for a new proof, and does nothing', async (url) => {
    const snapshot = async () => {
      const events = await eventsOf(t.db, {}, ['repositoryId', 'groupId'])
      return {
        tokens: await countRows(t.db, 'personal_token'),
        deploy: await countRows(t.db, 'deploy_token'),
        repositories: await countRows(t.db, 'repository', { deletedAt: null }),
        events: events.filter((event) => event.repositoryId ?? event.groupId).length,
        versions: await countRows(t.db, 'package_version', { deletedAt: null }),
        factors: await countRows(t.db, 'totp_factor'),
      }
    }
    const before = await snapshot()
    const asked = await send(path(url, place), forms[url])
    expect(asked).toEqual({
      statusCode: 303,
      location: expect.stringMatching(/^\/settings\/confirm-access\?/),
    })
    expect(await snapshot()).toEqual(before)
  })

  it.each([
    '/settings/second-factor/totp',
    '/settings/second-factor/totp/confirm',
    '/settings/second-factor/passkeys',
  ])('%s keeps the page for which the person adds a second factor', async (url) => {
    await send(url, { return: 'abc' })
    expect(await countRows(t.db, 'held_form', { url, fields: 'return=abc' })).toBe(1)
  })

  it('of the administration all ask for one', async () => {
    const found = allForms.filter((url) => url.startsWith('/admin'))
    expect(found.length).toBeGreaterThan(12)
    for (const url of found) {
      const { statusCode, location } = await send(path(url, place))
      expect([url, statusCode, location.split('?')[0]]).toEqual([url, 303, '/settings/confirm-access'])
    }
    expect(await countRows(t.db, 'account')).toBe(2)
  })

  it.each([
    [
      '/settings/account/password',
      {
        current_password: '',
        new_password: 'a new and longer password',
        repeated_password: 'a new and longer password',
      },
    ],
    ['/settings/account/sign-in', { username: 'other', email: '', current_password: '' }],
    ['/settings/account/delete', { username: '', current_password: '' }],
  ])('%s asks for the current password itself', async (url, form) => {
    const { statusCode } = await send(url, {
      ...form,
      ...(url.endsWith('delete') && { username: account.username }),
    })
    expect(statusCode).toBe(403)
  })

  it('are all in the lists of this test', () => {
    const found = allForms.filter((url) => !url.startsWith('/admin'))
    expect(found.toSorted()).toEqual(Object.values(kinds).flat().toSorted())
  })
})
