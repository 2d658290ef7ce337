import { existsSync, mkdtempSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { deleteAccount } from '../../../../src/accounts/account-lifecycle.ts'
import { listAppliedMigrations } from '../../../../src/database/migrate.ts'
import { enforcedScopes } from '../../../../src/domain/permissions.ts'
import { operator } from '../../../../src/domain/principal.ts'
import { hashSecret } from '../../../../src/domain/secrets.ts'
import { changeApplicationStatus } from '../../../../src/oauth/application-changes.ts'
import { findApplicationByClientId } from '../../../../src/oauth/applications.ts'
import { anAccount, cookiesOf, post } from '../../../support/actors.ts'
import { anAdministrator, postFile, registrationFields } from '../../../support/admin-actors.ts'
import { useApp } from '../../../support/app.ts'
import { listStoredApplications } from '../../../support/application-rows.ts'
import { open } from '../../../support/browse.ts'
import { eventsOf } from '../../../support/event-rows.ts'
import { anApplication, anAuthorization, pixel } from '../../../support/oauth-actors.ts'
import { changeRegistration, dateUse, listClientSecrets } from '../../../support/oauth-rows.ts'
import { countRows } from '../../../support/rows.ts'
import { useUnwritableFolder } from '../../../support/unwritable-folder.ts'

describe('/admin/applications of an operator who keeps migrations', () => {
  const migrations = mkdtempSync(join(tmpdir(), 'svc-migrations-'))
  const t = useApp({ MIGRATIONS_DIR: migrations })

  const stored = async (clientId: string) =>
    (await listStoredApplications(t.db)).find((one) => one.clientId === clientId)

  it('lists the applications of one state', async () => {
    const { cookie } = await anAdministrator(t)
    await anApplication(t.db, { name: 'Waiting One', status: 'pending' })
    await anApplication(t.db, { name: 'Working One' })
    const pending = await open(t, '/admin/applications?state=pending', cookie)
    expect(pending.body).toContain('Waiting One')
    expect(pending.body).not.toContain('Working One')
    expect((await open(t, '/admin/applications', cookie)).body).toContain('Working One')
    expect((await open(t, '/admin/applications?state=unheard', cookie)).statusCode).toBe(400)
  })

  it('shows every field of SPEC 2.1, the scopes with their danger and who enforces them, and the use', async () => {
    const { account, cookie } = await anAdministrator(t)
    const application = await anApplication(t.db, {
      name: 'Ask <b>',
      description: 'Everything & more',
      scopes: ['registry-package-delete:rw', 'repo-code:r', 'account-email:rw'],
      resourceScope: 'public',
      status: 'pending',
    })
    await anAuthorization(t.db, account, application)
    await anAuthorization(t.db, await anAccount(t.db), application)
    await dateUse(t.db, account, new Date('2026-01-02T03:04Z'))
    const { body } = await open(t, `/admin/applications/${application.clientId}`, cookie)
    for (const words of [
      'Ask &lt;b&gt;',
      'Everything &amp; more',
      application.clientId,
      application.redirectUri,
      application.website,
      'Any URL on app.example.com',
      'Public repositories only',
      '2 accounts',
      '2 Jan 2026, 03:04 UTC',
      'Can delete permanently',
      '<code>registry-package-delete:rw</code> · Enforced here',
      '<code>repo-code:r</code> · For other services',
      '<code>account-email:rw</code> · Reading is enforced here',
    ]) {
      expect(body).toContain(words)
    }
    const redirectUri = 'http://127.0.0.1:8123/callback'
    await changeRegistration(t.db, application, { resourceScope: 'specified', redirectUri })
    const specified = await open(t, `/admin/applications/${application.clientId}`, cookie)
    expect(specified.body).toContain('Only the repositories that the person chooses')
    expect(specified.body).toContain('Any URL on 127.0.0.1, with any port')
    // Only administrators see the logo of an application that was never approved.
    const logo = await open(t, `/admin/applications/${application.clientId}/logo`, cookie)
    expect(logo.rawPayload).toEqual(pixel)
    expect((await open(t, `/applications/${application.clientId}/logo`, cookie)).statusCode).toBe(404)
  })

  it('warns of a Redirect URL whose codes are not encrypted (20)', async () => {
    const { cookie } = await anAdministrator(t)
    const warns = async (redirectUri: string) => {
      const { clientId } = await anApplication(t.db, { redirectUri })
      const { body } = await open(t, `/admin/applications/${clientId}`, cookie)
      expect(body).toContain(redirectUri)
      return body.includes('not encrypted')
    }
    expect(await warns('http://ci.example.com/callback')).toBe(true)
    for (const redirectUri of [
      'https://ci.example.com/callback',
      'http://127.0.0.1/back',
      'http://[::1]:8080/',
    ])
      expect(await warns(redirectUri)).toBe(false)
  })

  it('knows which scopes the product enforces: those that the API description names', async () => {
    const { paths } = (await t.app.inject('/api/openapi.json')).json()
    const described = new Set(JSON.stringify(paths).match(/\b[a-z-]+:rw?(?=["`])/g))
    expect([...described].filter((scope) => !enforcedScopes.includes(scope))).toEqual([])
    expect(enforcedScopes.filter((scope) => !described.has(scope))).toEqual([])
  })

  it('approves, suspends and declines with a reason, and writes migrations', async () => {
    const { account, cookie, csrf_token } = await anAdministrator(t)
    const { clientId } = await anApplication(t.db, { status: 'pending' })
    const url = `/admin/applications/${clientId}`
    const review = (fields: Record<string, string>) => post(t.app, url, cookie, { csrf_token, ...fields })

    const approved = await review({ act: 'approve' })
    expect(approved.statusCode).toBe(303)
    expect(await stored(clientId)).toMatchObject({ status: 'approved', statusReason: null })
    const page = await open(t, String(approved.headers.location), `${cookie}; ${cookiesOf(approved)}`)
    expect(page.body).toContain('is approved. People can authorize it.')
    const file = /href="(\/admin\/applications\/migrations\/[^"]+)"/.exec(page.body)?.[1] ?? ''
    const download = await open(t, file, cookie)
    expect(download.headers['content-disposition']).toMatch(/^attachment; filename="\d{4}_approve_/)
    expect(download.body).toContain(
      `set status = 'approved', status_reason = null where client_id = '${clientId}'`,
    )

    const approvals = await eventsOf(t.db, { action: 'application-approved' }, ['via', 'actorId'])
    expect(approvals).toEqual([{ via: 'browser', actorId: account.id }])
    await review({ act: 'suspend', reason: "It's leaking" })
    expect(await stored(clientId)).toMatchObject({ status: 'suspended', statusReason: "It's leaking" })
    const question = await open(t, `${url}/ask?act=decline`, cookie)
    expect(question.body).toMatch(/<textarea id="asked" name="reason" rows="4" maxlength="350" required/)
    const reason = 'No <b>website</b>.\r\n\r\nAsk again.'
    const declined = await review({ act: 'decline', reason, only_here: 'yes' })
    expect(declined.headers.location).toBe(url)
    const oneLine = 'No <b>website</b>. Ask again.'
    expect(await stored(clientId)).toMatchObject({ status: 'declined', statusReason: oneLine })
    expect((await open(t, url, cookie)).body).toContain('No &lt;b&gt;website&lt;/b&gt;. Ask again.')
    const history = (await open(t, url, cookie)).body.replaceAll('\n', ' ').match(/<h2>History.*/)?.[0] ?? ''
    expect(Array.from(history.matchAll(/<strong>([^<]+)</g), ([, what]) => what)).toEqual([
      'Application declined',
      'Application suspended',
      'Application approved',
      'Application registered',
    ])
    expect(history.split(`<td>${account.username}</td>`)).toHaveLength(4)
    expect(history).toContain('It&#39;s leaking')
    expect(history).not.toContain('Package Mirror, Package Mirror')
    expect(history).toContain(`/admin/events?application=${clientId}`)
    const link = `/oauth2/auth?response_type=code&client_id=${clientId}`
    expect((await open(t, link, cookie)).statusCode).toBe(400)
    expect((await open(t, `/applications/${clientId}/logo`)).statusCode).toBe(404)
  })

  it.each([
    ['no reason', { act: 'decline', reason: ' ' }, 'Enter a reason for declining the application.'],
    ['a long reason', { act: 'suspend', reason: 'x'.repeat(351) }, 'A reason has at most 350 characters'],
    ['a reason with a control character', { act: 'suspend', reason: 'a\u202eb' }, 'A reason has at most'],
    ['an unknown act', { act: 'delete' }, 'has a value that is not allowed'],
  ])('changes no state with %s', async (_what, form, words) => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const { clientId } = await anApplication(t.db)
    const response = await post(t.app, `/admin/applications/${clientId}`, cookie, { csrf_token, ...form })
    expect(response.statusCode).toBe(400)
    expect(response.body).toContain(words)
    expect(await stored(clientId)).toMatchObject({ status: 'approved', statusReason: null })
  })

  it('makes a new secret, and the old one works until the overlap ends', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const { id, clientId, clientSecret } = await anApplication(t.db)
    const url = `/admin/applications/${clientId}/secret`
    const response = await post(t.app, url, cookie, { csrf_token, overlap_seconds: '3600' })
    const made = /<code id="client-secret">(\w+)</.exec(response.body)?.[1] ?? ''
    const [old, current, ...others] = await listClientSecrets(t.db, { id })
    expect([old?.secretHash, current?.secretHash]).toEqual([hashSecret(clientSecret), hashSecret(made)])
    expect(others).toEqual([])
    expect(old?.seconds).toBeGreaterThan(3000)
    expect(old?.seconds).toBeLessThanOrEqual(3600)
    expect((await post(t.app, url, cookie, { csrf_token, overlap_seconds: '5' })).statusCode).toBe(400)
  })

  it('registers an application with its logo, shows the secret once and offers the migration', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const response = await postFile(t, '/admin/applications/new', cookie, {
      ...registrationFields,
      csrf_token,
    })
    expect(response.statusCode).toBe(200)
    const clientId = /<code id="client-id">(\w+)</.exec(response.body)?.[1] ?? ''
    const secret = /<code id="client-secret">(\w+)</.exec(response.body)?.[1] ?? ''
    expect(await stored(clientId)).toMatchObject({
      name: 'Build Bot',
      description: 'Builds\nthings',
      website: 'https://bot.example.com',
      redirectUri: 'https://bot.example.com/callback',
      isExactRedirect: false,
      logo: pixel,
      scopes: ['account-profile:r', 'registry-package:rw'],
      resourceScope: 'all',
      status: 'approved',
      isResourceServer: false,
    })
    const token = await t.app.inject({
      method: 'POST',
      url: '/oauth2/token',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      payload: `grant_type=authorization_code&code=x&client_id=${clientId}&client_secret=${secret}`,
    })
    expect(token.json().error).toBe('invalid_grant')
    const file = /migrations\/(\d{4}_application_build_bot\.sql)"/.exec(response.body)?.[1] ?? ''
    const download = await open(t, `/admin/applications/migrations/${file}`, cookie)
    expect(download.body).toBe(await readFile(join(migrations, file), 'utf8'))
    expect(download.body).not.toContain(secret)
  })

  it('registers a public client without a secret (OPENID 201)', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const fields = { ...registrationFields, name: 'Public Bot', public: 'yes', csrf_token }
    const response = await postFile(t, '/admin/applications/new', cookie, fields)
    expect(response.statusCode).toBe(303)
    const page = await open(t, String(response.headers.location), `${cookie}; ${cookiesOf(response)}`)
    expect(page.body).toContain('It is a public client, so it has no secret')
    expect(page.body).toContain('None: it is a public client')
    expect(page.body).not.toContain('Generate new secret')
    const [, clientId = ''] = /applications\/([a-z0-9]+)/.exec(String(response.headers.location)) ?? []
    const { id = '' } = (await findApplicationByClientId(t.db, clientId)) ?? {}
    expect(await listClientSecrets(t.db, { id })).toEqual([])
    const url = `/admin/applications/${clientId}/secret`
    expect((await post(t.app, url, cookie, { csrf_token, overlap_seconds: '0' })).statusCode).toBe(409)
    const edited = await postFile(t, `/admin/applications/${clientId}/edit`, cookie, {
      ...fields,
      public: '',
    })
    expect(edited.statusCode).toBe(303)
    expect(await stored(clientId)).toMatchObject({ isPublic: false })
  })

  it.each([
    ['a long name', { name: 'n'.repeat(51) }, pixel, 'the name has 51 characters, more than 50'],
    ['no website', { website: '' }, pixel, 'the website is not an http or https URL'],
    ['no scope', { scope: [] }, pixel, 'no scope is chosen'],
    ['an unknown scope', { scope: 'repo-code:x' }, pixel, 'a scope is not known'],
    ['letters of two scripts', { name: 'Вuild Bot' }, pixel, 'a word of the name has letters of two scripts'],
    ['a scope twice', { name: 'Twice', scope: ['repo-code:r', 'repo-code:r'] }, pixel, 'This breaks a rule'],
    ['no logo', {}, null, 'the logo is missing'],
    ['a logo that is no image', {}, Buffer.from('text'), 'the logo is not a PNG'],
    ['a large logo', {}, Buffer.concat([pixel, Buffer.alloc(1_048_577)]), 'the logo has more than 1048576'],
    ['an unknown resource scope', { resource_scope: 'some' }, pixel, 'has a value that is not allowed'],
    ['a name sent twice', { name: ['One', 'Two'] }, pixel, 'The parameter name is repeated'],
    ['NUL in a field', { name: 'a\0b' }, pixel, 'not well-formed'],
  ])('registers nothing with %s', async (_what, difference, logo, words) => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const before = await countRows(t.db, 'application')
    const fields = { ...registrationFields, ...difference, csrf_token }
    const response = await postFile(t, '/admin/applications/new', cookie, fields, logo)
    expect(response.statusCode).toBe(400)
    expect(response.body).toContain(words)
    expect(await countRows(t.db, 'application')).toBe(before)
  })

  it('changes the edited values, and nothing else', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const application = await anApplication(t.db)
    const url = `/admin/applications/${application.clientId}/edit`
    const fields = {
      csrf_token,
      name: application.name,
      description: '',
      website: application.website,
      redirect_uri: application.redirectUri,
      exact_redirect: 'yes',
      scope: application.scopes,
      resource_scope: 'specified',
    }
    const response = await postFile(t, url, cookie, fields, null)
    expect(response.statusCode).toBe(303)
    const name = /migration=(\d{4}_set_[^&]+)/.exec(String(response.headers.location))?.[1] ?? ''
    const sql = await readFile(join(migrations, name), 'utf8')
    expect(sql.split('\n').slice(2, 5).join('\n')).toBe(
      `  exact_redirect = true,\n  resource_scope = 'specified',\n  description = null`,
    )
    expect(await stored(application.clientId)).toMatchObject({
      isExactRedirect: true,
      resourceScope: 'specified',
      description: null,
      logo: pixel,
    })
    const again = await postFile(t, url, cookie, fields, null)
    expect(again.statusCode).toBe(400)
    expect(again.body).toContain('There is nothing to change.')
    const bad = await postFile(t, url, cookie, { ...fields, website: 'ftp://x' }, null)
    expect(bad.statusCode).toBe(400)
    expect(bad.body).toContain('the website is not an http or https URL')
  })

  it('deletes an application after its name is typed, by a migration', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const { clientId, name } = await anApplication(t.db, { name: 'Old Bot' })
    const send = (confirmed: string) =>
      post(t.app, `/admin/applications/${clientId}/delete`, cookie, { csrf_token, confirmed })
    expect((await send('other')).statusCode).toBe(400)
    expect(await stored(clientId)).toBeDefined()
    expect((await send(` ${name} `)).headers.location).toBe('/admin/applications')
    expect(await stored(clientId)).toBeUndefined()
    const applied = await listAppliedMigrations(t.db)
    expect([...applied.keys()].filter((one) => one.includes('delete_old_bot'))).toHaveLength(1)
    expect((await send(name)).statusCode).toBe(404)
  })

  it('refuses forms that another site sent', async () => {
    const { cookie } = await anAdministrator(t)
    const { clientId } = await anApplication(t.db)
    const url = `/admin/applications/${clientId}`
    const forged = { ...registrationFields, csrf_token: 'guessed' }
    const before = await countRows(t.db, 'application')
    expect((await post(t.app, url, cookie, { act: 'suspend' })).statusCode).toBe(403)
    expect((await post(t.app, `${url}/secret`, cookie, { overlap_seconds: '0' })).statusCode).toBe(403)
    expect((await postFile(t, `${url}/edit`, cookie, forged)).statusCode).toBe(403)
    expect((await postFile(t, '/admin/applications/new', cookie, forged)).statusCode).toBe(403)
    expect(await stored(clientId)).toMatchObject({ status: 'approved', name: 'Package Mirror' })
    expect(await countRows(t.db, 'application')).toBe(before)
  })

  it('responds with 404 for unknown applications and migrations', async () => {
    const { cookie } = await anAdministrator(t)
    for (const path of ['nobodyhasthis', 'x', '%00', 'nobodyhasthis/edit', 'nobodyhasthis/logo']) {
      expect((await open(t, `/admin/applications/${path}`, cookie)).statusCode, path).toBe(404)
    }
    for (const file of ['9998_none.sql', '..%2f..%2fpackage.json', 'x.sql']) {
      expect((await open(t, `/admin/applications/migrations/${file}`, cookie)).statusCode, file).toBe(404)
    }
  })
})

describe('/admin/applications of an operator who keeps no migrations', () => {
  const t = useApp()

  it('registers, changes, reviews and deletes in the database alone, and speaks of no migration', async () => {
    const { account, cookie, csrf_token } = await anAdministrator(t)
    const developer = await anAccount(t.db)
    const fields = { ...registrationFields, csrf_token, pending: 'yes', developer: developer.username }
    const pages: string[] = [(await open(t, '/admin/applications/new', cookie)).body]
    const registered = await postFile(t, '/admin/applications/new', cookie, fields)
    pages.push(registered.body)
    expect(registered.body).toContain(`Give it with the client ID to ${developer.username},`)
    const clientId = /<code id="client-id">(\w+)</.exec(registered.body)?.[1] ?? ''
    const found = () => findApplicationByClientId(t.db, clientId)
    expect(await found()).toMatchObject({
      status: 'pending',
      developer: developer.username,
      reviewer: null,
      reviewedAt: null,
    })

    const url = `/admin/applications/${clientId}`
    pages.push((await open(t, url, cookie)).body, (await open(t, `${url}/ask?act=decline`, cookie)).body)
    await post(t.app, url, cookie, { csrf_token, act: 'decline', reason: 'No website' })
    expect(await found()).toMatchObject({
      status: 'declined',
      statusReason: 'No website',
      reviewer: account.username,
      reviewedAt: expect.any(Date),
    })
    pages.push((await open(t, url, cookie)).body)
    expect(pages.at(-1)).toContain(`by ${account.username}</dd>`)
    const own = { ...fields, name: 'Better Bot' }
    pages.push((await open(t, `${url}/edit`, cookie)).body)
    expect((await postFile(t, `${url}/edit`, cookie, own, null)).headers.location).toBe(url)
    expect(await found()).toMatchObject({ name: 'Better Bot', developer: developer.username })
    expect(pages.filter((body) => /migration/i.test(body))).toEqual([])

    await post(t.app, `${url}/delete`, cookie, { csrf_token, confirmed: 'Better Bot' })
    expect(await found()).toBeNull()
    expect(existsSync(join(t.config.dataDir, 'migrations'))).toBe(false)
  })

  it('refuses a name for which people could take that of another application, unless a seed has it', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const seeded = { name: 'Ledger Sync' }
    await anApplication(t.db, seeded)
    const twin = await anApplication(t.db, seeded)
    const refusal = 'People could take this name for that of the application “Ledger Sync”.'
    const lookalike = { ...registrationFields, csrf_token, name: 'Iedger-sync' }
    const registered = await postFile(t, '/admin/applications/new', cookie, lookalike)
    expect([registered.statusCode, registered.body.includes(refusal)]).toEqual([400, true])

    const { clientId } = await anApplication(t.db, { name: 'Other' })
    const rename = (id: string, name: string) =>
      post(t.app, `/admin/applications/${id}/edit`, cookie, { ...registrationFields, csrf_token, name })
    const renamed = await rename(clientId, 'Iedger-sync')
    expect([renamed.statusCode, renamed.body.includes(refusal)]).toEqual([400, true])
    expect((await rename(twin.clientId, 'Ledger Sync')).statusCode).toBe(303)
  })

  it('refuses a developer that does not exist', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const fields = { ...registrationFields, csrf_token, developer: 'nobody-has-this' }
    const response = await postFile(t, '/admin/applications/new', cookie, fields)
    expect(response.statusCode).toBe(400)
    expect(response.body).toContain('There is no account nobody-has-this for the developer.')
  })

  it('forgets the developer and the reviewer when their accounts are deleted', async () => {
    const person = await anAccount(t.db)
    const by = { ...operator, via: 'browser' as const, accountId: person.id }
    const { clientId } = await anApplication(t.db, { status: 'pending', developer: person.username })
    await changeApplicationStatus(t.db, t.config, by, clientId, {
      verb: 'approve',
      status: 'approved',
      isMigration: true,
    })
    expect(await findApplicationByClientId(t.db, clientId)).toMatchObject({ reviewer: person.username })
    await deleteAccount(t.db, operator, person, 'leave')
    expect(await findApplicationByClientId(t.db, clientId)).toMatchObject({
      developer: null,
      reviewer: null,
      reviewedAt: expect.any(Date),
    })
  })
})

describe('/admin/applications with a migrations folder in which no file can be created', () => {
  const t = useApp({ MIGRATIONS_DIR: useUnwritableFolder() })

  it('says so and changes nothing, and changes only this database when requested', async () => {
    const { cookie, csrf_token } = await anAdministrator(t)
    const { clientId } = await anApplication(t.db)
    const url = `/admin/applications/${clientId}`
    const response = await post(t.app, url, cookie, { csrf_token, act: 'suspend' })
    expect(response.statusCode).toBe(400)
    expect(response.body).toContain('cannot be written')
    const status = async () => (await findApplicationByClientId(t.db, clientId))?.status
    expect(await status()).toBe('approved')
    const here = await post(t.app, url, cookie, { csrf_token, act: 'suspend', only_here: 'yes' })
    expect(here.headers.location).toBe(url)
    expect(await status()).toBe('suspended')
  })
})
