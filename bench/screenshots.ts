import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { aGroupMember, anAccount, aPersonalToken, aRepository, password } from '../test/support/actors.ts'
import { anApplication, anAuthorization } from '../test/support/oauth-actors.ts'
import { aPackageZip, basic } from '../test/support/registry-actors.ts'
import { type Server, startServer } from './server.ts'

/**
 * `npm run screenshots` takes pictures of every page, for people to look at. It starts a server with demo data and
 * writes `<folder>/<page>-<width>-<scheme>.png`. The first argument is the folder; the default is `screenshots`. With
 * `--readme` it writes only the two pictures of the README, to docs/images/.
 */
const words = process.argv.slice(2)
const isForReadme = words.includes('--readme')
const folder = isForReadme ? 'docs/images' : (words.find((word) => !word.startsWith('--')) ?? 'screenshots')
const widths = [375, 1280]
const schemes = ['light', 'dark'] as const

const manifests: Record<string, Record<string, unknown>> = {
  'acme/billing': {
    description: 'Invoices, taxes and payments',
    keywords: ['invoice', 'tax', 'payment'],
    require: { php: '>=8.2', 'acme/money': '^2.0', 'psr/log': '^3.0' },
  },
  'acme/money': { description: 'Amounts and currencies that never lose a cent', require: { php: '>=8.1' } },
  'acme/mailer': { description: 'Sends mails from templates, in the background', require: { php: '>=8.1' } },
}

const work = await mkdtemp(join(tmpdir(), 'svc-screenshots-'))
await mkdir(folder, { recursive: true })
const server = await startServer(work)
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
})
try {
  await takeAll(server)
} finally {
  await browser.close()
  await server.stop()
  await rm(work, { recursive: true, force: true, maxRetries: 5 })
}

async function takeAll({ db, baseUrl }: Server): Promise<void> {
  const ann = await anAccount(db, { username: 'ann', displayName: 'Ann Berger', email: 'ann@example.com' })
  const admin = await anAccount(db, { username: 'root', isAdmin: true })
  const newcomer = await anAccount(db, { username: 'nora' })
  const { group } = await aRepository(db, {
    group: (await db.query(`insert into repository_group (name) values ('acme') returning id, name`)).rows[0],
    name: 'php',
    description: 'Packages of all teams',
  })
  await aRepository(db, { group, name: 'open', visibility: 'public', description: 'What everybody may use' })
  await aRepository(db, { group, name: 'empty' })
  await aGroupMember(db, ann, group, 'admin')
  await aGroupMember(db, await anAccount(db, { username: 'bob' }), group, 'developer')
  const token = await aPersonalToken(db, ann, { name: 'build server', expiry: { inDays: 5 } })
  for (const [name, manifest] of Object.entries(manifests)) {
    for (const version of ['1.0.0', '1.1.0', '2.0.0', '2.1.0-beta.1']) {
      const response = await fetch(`${baseUrl}/acme/php/-/packages/upload/${name}/${version}`, {
        method: 'PUT',
        headers: { authorization: basic(token) },
        body: new Uint8Array(aPackageZip(name, { ...manifest, license: 'MIT' })),
      })
      if (response.status !== 201) throw new Error(`${name} ${version}: ${response.status}`)
    }
  }
  await db.query(
    `insert into package_download (version_id, day, count)
     select v.id, current_date - i, (i * 7 + v.id) % 40 + 3 from package_version v, generate_series(0, 60) i`,
  )
  const application = await anApplication(db, { name: 'Deploy Robot', resourceScope: 'specified' })
  await anAuthorization(db, ann, application)
  const consent = new URLSearchParams({
    response_type: 'code',
    client_id: application.clientId,
    prompt: 'consent',
  })

  const asAnn = await signedIn(baseUrl, ann.username)
  if (isForReadme) {
    await shoot(asAnn, 'repository', '/acme/php', { widths: [1280], schemes: ['light'] })
    await shoot(asAnn, 'consent', `/oauth2/auth?${consent}`, { widths: [1280], schemes: ['light'] })
    return
  }
  const lib = '/acme/php/packages/acme/billing'
  const settings = ['account', 'security', 'sessions', 'tokens', 'authorizations']
  const ofAnn = {
    home: '/',
    group: '/acme',
    'group-members': '/acme/-/members',
    'group-deploy-tokens': '/acme/-/deploy-tokens',
    repository: '/acme/php',
    'repository-empty': '/acme/empty',
    'repository-no-match': '/acme/php?q=nothing',
    ...Object.fromEntries(
      ['', '?tool=github', '?tool=gitlab', '?tool=curl', '?tool=netrc'].map((tool) => [
        `setup${tool.replace('?tool=', '-')}`,
        `/acme/php/-/setup${tool}`,
      ]),
    ),
    ...Object.fromEntries(
      ['upstreams', 'members', 'activity', 'settings', 'deploy-tokens', 'upload'].map((one) => [
        one,
        `/acme/php/-/${one}`,
      ]),
    ),
    'members-remove': '/acme/-/members/remove?username=bob',
    package: lib,
    ...Object.fromEntries(
      ['versions', 'dependencies', 'dependents', 'files', 'compare', 'advisories', 'activity'].map((one) => [
        `package-${one}`,
        `${lib}/-/${one}`,
      ]),
    ),
    'version-quarantine': `${lib}/-/versions/quarantine?version=1.0.0`,
    search: '/search?q=money',
    'search-nothing': '/search?q=zzzz',
    'new-group': '/new/group',
    'new-repository': '/new/repository',
    ...Object.fromEntries(settings.map((one) => [`settings-${one}`, `/settings/${one}`])),
    consent: `/oauth2/auth?${consent}`,
    'link-error': '/oauth2/auth?client_id=unknown',
    'not-found': '/no/where',
    'bad-request': '/?q=a&q=b',
    docs: '/docs',
    'docs-search': '/docs?q=backup',
    document: '/docs/operations',
    'docs-api': '/docs/api',
  }
  for (const [name, url] of Object.entries(ofAnn)) await shoot(asAnn, name, url)
  const asNewcomer = await signedIn(baseUrl, newcomer.username)
  await shoot(asNewcomer, 'home-newcomer', '/')
  await shoot(asNewcomer, 'consent-nothing-to-choose', `/oauth2/auth?${consent}`)
  const asAdmin = await signedIn(baseUrl, admin.username)
  for (const one of ['', '/accounts', '/applications', '/groups', '/events', '/system']) {
    await shoot(asAdmin, `admin${one.replace('/', '-')}`, `/admin${one}`)
  }
  await shoot(asAdmin, 'admin-account', '/admin/accounts/ann')
  const visitor = await browser.newContext({ baseURL: baseUrl })
  for (const [name, url] of Object.entries({
    front: '/',
    login: '/login',
    'public-repository': '/acme/open',
  })) {
    await shoot(visitor, name, url)
  }
}

async function signedIn(baseURL: string, username: string): Promise<BrowserContext> {
  const context = await browser.newContext({ baseURL })
  const page = await context.newPage()
  await page.goto('/login')
  await page.getByLabel('Username or email').fill(username)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.locator('details.menu').waitFor()
  await page.close()
  return context
}

async function shoot(
  context: BrowserContext,
  name: string,
  url: string,
  wanted: { widths: readonly number[]; schemes: readonly ('light' | 'dark')[] } = { widths, schemes },
): Promise<void> {
  const page: Page = await context.newPage()
  for (const colorScheme of wanted.schemes) {
    await page.emulateMedia({ colorScheme })
    for (const width of wanted.widths) {
      await page.setViewportSize({ width, height: 800 })
      await page.goto(url)
      const suffix = isForReadme ? '' : `-${width}-${colorScheme}`
      await page.screenshot({ path: join(folder, `${name}${suffix}.png`), fullPage: !isForReadme })
    }
  }
  await page.close()
}
