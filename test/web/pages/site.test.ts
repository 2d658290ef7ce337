import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { findEnrolment, startEnrolment } from '../../../src/accounts/second-factor/totp-enrolment.ts'
import { projectRoot, readConfig } from '../../../src/config.ts'
import { buildApp } from '../../../src/web/server/app.ts'
import { openLog } from '../../../src/web/server/log.ts'
import { anAccount, cookiesOf, csrfTokenIn, post, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { anApplication, pixel } from '../../support/oauth-actors.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-site-'))
const png = join(folder, 'logo.png')
writeFileSync(png, pixel)

describe('an installation with a name, a logo and a contact', () => {
  const contact = 'help@acme.example'
  const t = useApp({
    SITE_NAME: 'Acme <Packages>',
    SITE_LOGO: png,
    SITE_CONTACT: contact,
    ACCOUNT_MAX_GROUPS: '0',
  })
  const link = `<a href="mailto:${contact}">${contact}</a>`

  /** Sends a form of a page, as a new account. */
  const send = async (page: string, url: string, form: Record<string, string>) => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const csrf_token = csrfTokenIn(await t.app.inject({ url: page, headers: { cookie } }))
    const { body } = await post(t.app, url, cookie, { ...form, csrf_token })
    return body
  }

  it('shows them on every page, for visitors and for people who are signed in', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    for (const { body } of [
      await t.app.inject('/'),
      await t.app.inject('/login'),
      await t.app.inject({ url: '/', headers: { cookie } }),
    ]) {
      expect(body).toMatch(/<title>[^<]* · Acme &lt;Packages&gt;<\/title>/)
      const [, logo] =
        /<a class="brand" href="\/"><img src="([^"]+)" alt=""><span>Acme &lt;Packages&gt;</.exec(body) ?? []
      const image = await t.app.inject(logo as string)
      expect([image.headers['content-type'], image.rawPayload]).toEqual(['image/png', pixel])
      expect(image.headers['cache-control']).toContain('immutable')
      expect(body).toContain(`<a href="mailto:${contact}">Contact</a>`)
    }
  })

  it('names the contact in errors, and in messages that tell people to ask an administrator', async () => {
    expect((await t.app.inject('/password-reset')).body).toContain(`Ask an administrator (${link})`)
    expect((await t.app.inject('/nothing')).body).toContain(
      `When you report this to ${link}, include the request ID`,
    )
    expect(await send('/new/group', '/new/group', { name: 'acme' })).toContain(
      `ask an administrator (${link}) about ACCOUNT_MAX_GROUPS`,
    )
  })

  it('is named in authenticator apps', async () => {
    const account = await anAccount(t.db)
    await startEnrolment(t, account.id)
    expect((await findEnrolment(t, account))?.url).toContain('issuer=Acme%20Packages%20svc.test')
  })
})

describe('SITE_LOGO', () => {
  const t = useApp()
  const build = async (bytes: string | Buffer | null) => {
    const file = join(folder, `logo-${readdirSync(folder).length}`)
    if (bytes !== null) writeFileSync(file, bytes)
    const app = await buildApp(
      { config: readConfig({ SITE_LOGO: file }), db: t.db },
      openLog('silent', new PassThrough()),
    )
    return app
  }

  it('may be an SVG, which runs no scripts', async () => {
    const app = await build('<svg xmlns="http://www.w3.org/2000/svg"></svg>')
    const [, logo = ''] = /rel="icon" href="([^"]+)"/.exec((await app.inject('/docs')).body) ?? []
    const { headers } = await app.inject(logo)
    expect(headers['content-type']).toBe('image/svg+xml')
    expect(headers['content-security-policy']).toContain("default-src 'none'")
    await app.close()
  })

  it.each([
    ['is missing', null, 'cannot be read (ENOENT)'],
    ['is too large', Buffer.alloc(102_401), 'more than 102400 (100 kB)'],
    ['is no image', 'hello', 'is not an SVG, PNG, JPEG, GIF or WebP image'],
  ])('stops the start when it %s', async (_what, bytes, message) => {
    await expect(build(bytes)).rejects.toThrow(message)
  })
})

describe('a sign-in on the way to an application', () => {
  const t = useApp({ SITE_NAME: 'Acme Packages' })
  const linkTo = (clientId: string) => `/oauth2/auth?response_type=code&client_id=${clientId}`
  const signInPage = async (clientId: string) => {
    const { headers } = await t.app.inject(linkTo(clientId))
    return (await t.app.inject(String(headers.location))).body
  }

  it('names the application, with its logo and its host, also after a wrong password', async () => {
    const { clientId } = await anApplication(t.db, { name: 'Build <Bot>' })
    const { headers } = await t.app.inject(linkTo(clientId))
    const page = await t.app.inject(String(headers.location))
    const shown = [
      'Sign in to continue to <bdi>Build &lt;Bot&gt;</bdi>',
      `<img src="/applications/${clientId}/logo"`,
      'An application on <strong>app.example.com</strong>',
    ]
    for (const part of shown) expect(page.body).toContain(part)
    const [, id = ''] = /name="return" value="([^"]+)"/.exec(page.body) ?? []
    const form = { csrf_token: csrfTokenIn(page), return: id, username: 'nobody', password: 'wrong' }
    const refused = await post(t.app, '/login', cookiesOf(page), form)
    expect(refused.body).toContain('do not match')
    for (const part of shown) expect(refused.body).toContain(part)
  })

  it.each(['Acme  packages', 'ACME\u200bPackages', 'svc', 'svc.test'])(
    'shows the host of an application that has the name of the site (%s)',
    async (name) => {
      const { clientId } = await anApplication(t.db, { name })
      expect(await signInPage(clientId)).toContain('Sign in to continue to <bdi>app.example.com</bdi>')
    },
  )

  it('names no application for other pages, and for a link that would be refused', async () => {
    const { clientId } = await anApplication(t.db, { status: 'suspended' })
    for (const page of [`/login?page=${encodeURIComponent(linkTo(clientId))}`, '/login?page=/new/group']) {
      const { headers } = await t.app.inject(page)
      const { body } = await t.app.inject(String(headers.location))
      expect(body).toContain('<h1>Sign in</h1>')
      expect(body).not.toContain('to continue to')
    }
  })
})

it('no message sends people to an administrator without `anAdministrator`', () => {
  const files = ['src', 'views'].flatMap((top) =>
    readdirSync(join(projectRoot, top), { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.(?:ts|eta)$/.test(path))
      .map((path) => join(projectRoot, top, path)),
  )
  const direct = /\b(?:ask|tell|contact) (?:an|the|a site) (?:administrator|operator)\b/i
  expect(files.filter((file) => direct.test(readFileSync(file, 'utf8')))).toEqual([
    join(projectRoot, 'views/pages/home.eta'),
  ])
})
