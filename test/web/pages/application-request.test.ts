import { describe, expect, it } from 'vitest'
import { maxLogoBytes } from '../../../src/oauth/application-rules.ts'
import { aName, anAccount, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { anAdministrator, postFile, registrationFields } from '../../support/admin-actors.ts'
import { useApp } from '../../support/app.ts'
import { open } from '../../support/browse.ts'
import { anApplication } from '../../support/oauth-actors.ts'

const url = '/settings/applications/new'

describe('Get an application', () => {
  const t = useApp({ SITE_CONTACT: 'help@acme.example', SITE_NAME: 'Acme' })

  /** A developer, with a way to send the form. */
  const aDeveloper = async () => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const page = await open(t, url, cookie)
    const csrf_token = csrfTokenIn(page)
    const send = (changes: Record<string, string | string[]> = {}, logo?: Buffer | null) =>
      postFile(t, url, cookie, { ...registrationFields, csrf_token, ...changes }, logo)
    return { account, cookie, page, send }
  }
  const textIn = (body: string) =>
    (/<pre[^>]*><code>([^<]*)<\/code>/.exec(body)?.[1] ?? '').replaceAll('&#39;', "'")

  it('gives the text for the administrators, the scopes in words, and a link that writes the mail', async () => {
    const { account, send } = await aDeveloper()
    const { body, statusCode } = await send()
    expect(statusCode).toBe(200)
    const text = textIn(body)
    expect(text).toContain(`Name: Build Bot\nWebsite: https://bot.example.com\n`)
    expect(text).toContain(
      `Developer: ${account.username}\nDescription: Builds\nthings\nEnd of the application`,
    )
    expect(body).toContain('See, install and publish packages')
    expect(body).toMatch(/Send this text.*<details class="measure">\s*<summary>Change the details.*<form/s)
    const [, mail = ''] = /href="(mailto:[^"]+)">Write the mail/.exec(body) ?? []
    const link = new URL(mail.replaceAll('&amp;', '&'))
    expect(link.pathname).toBe('help@acme.example')
    expect(link.searchParams.get('body')).toBe(text.replaceAll('\n', '\r\n'))
  })

  it('warns of a redirect URL whose codes others can read', async () => {
    const { send } = await aDeveloper()
    const warns = async (redirect_uri: string) =>
      (await send({ redirect_uri })).body.includes('others in the network can read the codes')
    expect(await warns('http://bot.example.com/callback')).toBe(true)
    expect(await warns('http://127.0.0.1:8123/callback')).toBe(false)
    expect(await warns('https://bot.example.com/callback')).toBe(false)
  })

  it.each([
    ['a long name', { name: 'n'.repeat(51) }, undefined, 'The name has 51 characters, more than 50.'],
    ['the name of the site', { name: 'ACME' }, undefined, 'The name is that of this site.'],
    ['no scope', { scope: [] }, undefined, 'No scope is chosen.'],
    ['no logo', {}, null, 'The logo is missing.'],
    ['a logo that is no image', {}, Buffer.from('text'), 'The logo is not a PNG'],
    [
      'a large logo',
      {},
      Buffer.alloc(maxLogoBytes + 1, '\x89PNG\r\n\x1a\n', 'latin1'),
      'The logo has more than',
    ],
  ])('says what is wrong with %s, and gives no text', async (_what, changes, logo, words) => {
    const { send } = await aDeveloper()
    const { body } = await send(changes, logo)
    expect(body).toContain(words)
    expect(body.includes('Choose the logo again.')).toBe(logo !== null)
    expect(textIn(body)).toBe('')
  })

  it('is for signed-in people only, and reads no large body', async () => {
    const get = await t.app.inject(url)
    expect(get.headers.location).toContain('/login?return=')
    const visitor = await postFile(t, url, '', registrationFields)
    expect(String(visitor.headers.location)).toContain('/login?return=')
    const { send } = await aDeveloper()
    expect((await send({}, Buffer.alloc(maxLogoBytes + 100_000))).statusCode).toBe(413)
  })

  it('refuses a form that another site sent', async () => {
    const { send } = await aDeveloper()
    expect((await send({ csrf_token: 'guessed' })).statusCode).toBe(403)
  })

  it('is linked from the settings and from the document for developers', async () => {
    const { cookie } = await aDeveloper()
    expect((await open(t, '/settings/account', cookie)).body).toContain('href="/settings/applications"')
    expect((await open(t, '/docs/oauth-applications', cookie)).body).toContain(`href="${url}"`)
  })

  it('fills the form of an administrator, where everything is checked again', async () => {
    const { account, send } = await aDeveloper()
    const name = aName('Bot')
    const text = textIn((await send({ name, exact_redirect: 'yes' })).body)
    const { cookie, csrf_token } = await anAdministrator(t)
    const fill = (request: string) =>
      post(t.app, '/admin/applications/new/request', cookie, { csrf_token, request })
    const { body } = await fill(text)
    expect(body).toContain('choose the logo that came with it')
    expect(body).toContain(`name="name" value="${name}"`)
    expect(body).toContain(`name="developer" value="${account.username}"`)
    expect(body).toMatch(/value="registry-package:rw" checked/)
    expect(body).toContain('<summary>Packages <code class="chosen">registry-package:rw</code></summary>')
    expect(body).toMatch(/<details class="measure" name="way">\s*<summary>Paste the text of a developer/)
    expect(body).toMatch(/<details class="measure" name="way" open>\s*<summary>Review the details/)
    expect(body).toMatch(/name="exact_redirect" value="yes" checked/)
    expect(body).not.toMatch(/name="resource_server" value="yes" checked/)

    const forged = await fill(
      text.replace(/^Scopes: .*/m, 'Scopes: everything:rw').replace(name, '"><script>'),
    )
    expect(forged.body).toContain('The text breaks rules: a scope is not known.')
    expect(forged.body).toContain('value="&quot;&gt;&lt;script&gt;"')
    const other = await fill('Please register my application.')
    expect([other.statusCode, other.body.includes('This is no text of the page')]).toEqual([400, true])
    expect(other.body).not.toContain('choose the logo that came with it')
  })
})

describe('Your applications', () => {
  const t = useApp()

  it.each([
    ['pending', 'Waits for review'],
    ['approved', 'Approved'],
    ['suspended', 'Suspended'],
    ['declined', 'Declined'],
  ] as const)('shows the developer, and nobody else, that one is %s', async (status, words) => {
    const developer = await anAccount(t.db)
    const name = aName('Bot')
    await anApplication(t.db, { name, status, developer: developer.username })
    const page = async (account: { username: string }) =>
      (await open(t, '/settings/applications', await signIn(t.app, account))).body
    expect(await page(developer)).toMatch(new RegExp(`${name}[\\s\\S]*${words}</span>`))
    expect(await page(await anAccount(t.db))).not.toContain(name)
  })

  it('shows the developer why one is declined', async () => {
    const developer = await anAccount(t.db)
    const { clientId } = await anApplication(t.db, { status: 'pending', developer: developer.username })
    const { cookie, csrf_token } = await anAdministrator(t)
    const form = { csrf_token, act: 'decline', reason: 'The <website> is gone' }
    await post(t.app, `/admin/applications/${clientId}`, cookie, form)
    const { body } = await open(t, '/settings/applications', await signIn(t.app, developer))
    expect(body).toContain('The reason: The &lt;website&gt; is gone')
    expect(body).toContain('<dt>Reviewed</dt>')
  })
})
