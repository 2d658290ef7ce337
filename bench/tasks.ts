import { type Browser, type BrowserContext, chromium } from 'playwright-core'
import { findAccountByUsername } from '../src/accounts/accounts.ts'
import { operator } from '../src/domain/principal.ts'
import { deleteRepository } from '../src/groups/group-lifecycle.ts'
import { findGroup } from '../src/groups/groups.ts'
import { aGroup, aGroupMember, anAccount, aRepository, password } from '../test/support/actors.ts'
import { codeOf } from '../test/support/factor-actors.ts'
import { type MailServer, startMailServer } from '../test/support/mail-server.ts'
import { pixel } from '../test/support/oauth-actors.ts'
import { makeTourData, type TourData, tourZip } from '../test/support/tour-data.ts'
import { aPerson, type Effort, type Person } from './person.ts'
import { type Server, startServer } from './server.ts'
import { table } from './table.ts'

/** What the tasks need to know that no page shows. */
interface Known extends TourData {
  mails: MailServer
  /** A recovery code of mia. */
  recoveryCode: string
  /** The text that nora has sent. */
  applicationText: string
}

/**
 * The people: ann is the admin of the group acme, and bob a developer in it. nora is new and develops an application. lena is
 * the admin of another group. mia has lost her phone. root administers the site.
 */
type Name = 'ann' | 'nora' | 'lena' | 'mia' | 'root' | 'nobody'

interface Task {
  name: string
  by: Name
  /** The shortest way from Home for somebody who knows where things are. */
  act: (person: Person, known: Known) => Promise<void>
}

const tasks: Task[] = [
  {
    name: 'Sign up by an invitation',
    by: 'nobody',
    async act(you, { invitation }) {
      await you.follow(`/invitations?token=${invitation}`)
      await you.fill('Username', 'clara')
      await you.fill('Password', password)
      await you.fill('Password again', password)
      await you.go('Create account')
    },
  },
  {
    name: 'Make a group and a repository',
    by: 'nora',
    async act(you) {
      await you.go('New group')
      await you.fill('Name', 'nora')
      await you.go('Create group')
      await you.go('New repository')
      await you.fill('Name', 'php')
      await you.go('Create repository')
    },
  },
  {
    name: 'Make a token for CI',
    by: 'ann',
    async act(you) {
      await you.go('acme/php')
      await you.go('Set up')
      await you.go('GitHub Actions')
      await you.go('a token that may publish packages')
      await you.go('Create token')
      await you.press('Copy')
    },
  },
  {
    name: 'Set up Composer',
    by: 'nora',
    async act(you) {
      await you.go('nora/php')
      await you.go('Set up')
      await you.press('Copy')
      await you.go('a token that may install packages')
      await you.go('Create token')
      await you.press('Copy')
    },
  },
  {
    name: 'Publish the first version in the browser',
    by: 'nora',
    async act(you) {
      await you.go('nora/php')
      await you.go('Publish a version')
      const buffer = tourZip('nora/hello', '1.0.0')
      await you.attach('Zip file', { name: 'hello-1.0.0.zip', mimeType: 'application/zip', buffer })
      await you.go('Upload')
      await you.go('Publish nora/hello 1.0.0')
    },
  },
  {
    name: 'Invite a member',
    by: 'ann',
    async act(you) {
      await you.go('acme')
      await you.go('Invite someone')
      await you.fill('Email', 'dora@example.com')
      await you.go('Invite')
    },
  },
  {
    name: 'Change a role',
    by: 'ann',
    async act(you) {
      await you.go('acme')
      await you.go('Members')
      await you.press('Actions for bob')
      await you.go('Make bob guest')
    },
  },
  {
    name: 'Require a second factor',
    by: 'lena',
    async act(you) {
      await you.go('labs')
      await you.go('Settings')
      await you.go('See who has none, and require it')
      await you.go('Require it')
    },
  },
  {
    name: 'Make a repository public',
    by: 'nora',
    async act(you) {
      await you.go('nora/php')
      await you.go('Settings')
      await you.press('Public')
      await you.go('Save')
      await you.answer('Make it public')
    },
  },
  {
    name: 'Find who deleted a repository',
    by: 'ann',
    async act(you) {
      await you.go('acme')
      await you.go('Activity')
      await you.see('tools')
    },
  },
  {
    name: 'Restore a deleted version',
    by: 'ann',
    async act(you) {
      await you.go('acme/php')
      await you.go('acme/mailer')
      await you.go('Versions')
      await you.press('Actions for 1.1.0')
      await you.go('Restore')
    },
  },
  {
    name: 'Allow a version that is held back',
    by: 'ann',
    async act(you) {
      await you.go('acme/php')
      await you.go('Upstreams')
      await you.go('Allow now')
    },
  },
  {
    name: 'Add an upstream',
    by: 'ann',
    async act(you) {
      await you.go('acme/php')
      await you.go('Upstreams')
      await you.go('New upstream')
      await you.fill('URL', 'https://composer.example.com')
      await you.go('Add upstream')
    },
  },
  {
    name: 'Approve a package of an upstream',
    by: 'ann',
    async act(you) {
      await you.go('1 package of acme/php waits for approval')
      await you.go('Approve monolog/monolog')
    },
  },
  {
    name: 'See an advisory and the version that fixes it',
    by: 'ann',
    async act(you) {
      await you.go('acme/php')
      await you.go('acme/money')
      await you.go('Advisories')
      await you.see('Fixed in')
    },
  },
  {
    name: 'Compare two versions',
    by: 'ann',
    async act(you) {
      await you.go('acme/php')
      await you.go('acme/billing')
      await you.go('Compare')
      await you.choose('From', '1.0.0')
      await you.go('Compare')
    },
  },
  {
    name: 'Write the text for an application and send it',
    by: 'nora',
    async act(you, known) {
      await you.go('Applications')
      await you.go('Get an application')
      await you.fill('Name', 'Build Bot')
      await you.fill('Description', 'Builds your packages after each push')
      await you.fill('Official website', 'https://bot.example.com')
      await you.fill('Redirect URL', 'https://bot.example.com/callback')
      await you.attach('Logo', logo)
      await you.press('Packages')
      await you.press('See, install and publish packages')
      await you.press('Write the mail')
      known.applicationText = (await you.page.getByLabel('The text').textContent()) ?? ''
    },
  },
  {
    name: 'Register an application from its text',
    by: 'root',
    async act(you, { applicationText }) {
      await you.go('Administration')
      await you.go('Applications', 'main')
      await you.go('Register application')
      await you.fill('Text of a developer', applicationText)
      await you.go('Fill the form')
      await you.attach('Logo', logo)
      await you.go('Register and approve')
    },
  },
  {
    name: 'Review the scopes of an application and approve it',
    by: 'root',
    async act(you) {
      await you.go('1 application waits for review')
      await you.go('Report Writer')
      await you.see('What it may ask for')
      await you.go('Approve')
    },
  },
  {
    name: 'Withdraw an authorization',
    by: 'ann',
    async act(you) {
      await you.go('Applications')
      await you.press('Withdraw')
      await you.answer('Withdraw')
    },
  },
  {
    name: 'Sign in with a recovery code and replace the authenticator',
    by: 'nobody',
    async act(you, { recoveryCode }) {
      await you.go('Sign in')
      await you.fill('Username or email', 'mia')
      await you.fill('Password', password)
      await you.go('Sign in')
      await you.press('Use a recovery code')
      await you.fill('Recovery code', recoveryCode)
      await you.go('Sign in with a recovery code')
      await you.press('Actions for the authenticator app')
      await you.go('Replace')
      await you.fill('Code', codeOf(await secretOn(you)))
      await you.go('Replace the app')
    },
  },
  {
    name: 'Reset a password',
    by: 'nobody',
    async act(you, { mails }) {
      await you.go('Sign in')
      await you.go('Forgot your password?')
      await you.fill('Username or email', 'pia')
      await you.go('Send the link')
      await you.follow(await linkOfMail(mails))
      await you.fill('New password', password)
      await you.fill('New password again', password)
      await you.go('Set password')
    },
  },
  {
    name: 'Find the tokens that expire soon',
    by: 'ann',
    act: (you) => you.see('build server'),
  },
  {
    name: 'Disable an account',
    by: 'root',
    async act(you) {
      await you.go('Administration')
      await you.go('Accounts')
      await you.press('Actions for bob')
      await you.press('Disable')
      await you.answer('Disable')
    },
  },
  {
    name: 'Export the audit log as CSV',
    by: 'root',
    async act(you) {
      await you.go('Administration')
      await you.go('Events')
      await Promise.all([you.page.waitForEvent('download'), you.press('Export as CSV')])
    },
  },
  {
    name: 'Find who downloaded a version',
    by: 'ann',
    async act(you) {
      await you.go('acme/php')
      await you.go('acme/billing')
      await you.go('Who downloaded it')
      await you.see('bob in the browser')
    },
  },
  {
    name: 'Find the description of the API',
    by: 'nora',
    async act(you) {
      await you.go('API')
    },
  },
]

const logo = { name: 'logo.png', mimeType: 'image/png', buffer: pixel }

/**
 * `npm run bench -- tasks`: does what people do most in Chromium, and counts clicks, fields, pages and seconds. Every task
 * begins at Home.
 */
export async function measureTasks(folder: string): Promise<string> {
  const mails = await startMailServer()
  // Passkeys and the clipboard need a host name.
  const settings = (port: number) => ({
    SITE_CONTACT: 'help@example.com',
    ...mails.environment,
    BASE_URL: `http://localhost:${port}`,
  })
  const server = await startServer(folder, settings)
  const args = ['--no-sandbox', '--disable-gpu']
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args })
  try {
    const efforts = await doAll(browser, server, mails)
    return tableOf(efforts)
  } finally {
    await browser.close()
    await server.stop()
    await mails.stop()
  }
}

async function doAll(browser: Browser, server: Server, mails: MailServer): Promise<[string, Effort][]> {
  const baseURL = `http://localhost:${server.port}`
  const contexts = new Map<Name, BrowserContext>()
  const known = { ...(await makeTourData(server)), mails, recoveryCode: '', applicationText: '' }
  await addMore(server)
  const done: [string, Effort][] = []

  /** Opens Home. Each person has a browser, in which they are signed in. */
  async function open(name: Name): Promise<Person> {
    const own = contexts.get(name)
    const context = own ?? (await browser.newContext({ baseURL, viewport: { width: 1280, height: 800 } }))
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    await page.goto('/')
    if (!own && name !== 'nobody') {
      contexts.set(name, context)
      await signIn(aPerson(page), name)
    }
    return aPerson(page)
  }

  known.recoveryCode = await setUpAuthenticator(await open('mia'))
  await setUpAuthenticator(await open('lena'))
  for (const { name, by, act } of tasks) {
    const person = await open(by)
    await act(person, known).catch((error: Error) => {
      throw new Error(`${name}, at ${person.page.url()}: ${error.message}`)
    })
    done.push([name, person.effort()])
    await person.page.close()
  }
  return done
}

/** Adds what the tour does not show: a group whose admin has an authenticator app, and the deletion of a repository. */
async function addMore({ db }: Server): Promise<void> {
  await anAccount(db, { username: 'mia' })
  await anAccount(db, { username: 'pia', email: 'pia@example.com' })
  await db.query(`update account set email_verified_at = now() where username = 'pia'`)
  const lena = await anAccount(db, { username: 'lena' })
  await aGroupMember(db, lena, await aGroup(db, 'labs'), 'admin')
  const group = await findGroup(db, 'acme')
  const bob = await findAccountByUsername(db, 'bob')
  if (!group || !bob) throw new Error('the data of the tour is missing')
  const by = { ...operator, via: 'browser', accountId: bob.id } as const
  await deleteRepository(db, by, await aRepository(db, { group, name: 'tools' }))
}

async function signIn(person: Person, username: string): Promise<void> {
  await person.go('Sign in')
  await person.fill('Username or email', username)
  await person.fill('Password', password)
  await person.go('Sign in')
}

/** Sets up an authenticator app. Returns a recovery code. */
async function setUpAuthenticator(person: Person): Promise<string> {
  await person.page.goto('/settings/second-factor')
  await person.go('Set up an authenticator app')
  await person.fill('Code', codeOf(await secretOn(person)))
  await person.go('Set up the app')
  return ((await person.page.locator('#codes').textContent()) ?? '').split('\n')[0] ?? ''
}

async function secretOn({ page }: Person): Promise<string> {
  return ((await page.locator('#secret').textContent()) ?? '').replaceAll(' ', '')
}

async function linkOfMail({ received }: MailServer): Promise<string> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const link = received.find(({ recipients }) => recipients.includes('pia@example.com'))?.link
    if (link) return link
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  throw new Error('no mail arrived')
}

function tableOf(efforts: [string, Effort][]): string {
  const all = ['clicks', 'fields', 'scrolls', 'pages', 'seconds'] as const
  const sum = (name: keyof Effort) => efforts.reduce((total, [, effort]) => total + effort[name], 0)
  const cells = (read: (part: keyof Effort) => number) => all.map((part) => read(part).toFixed(0))
  return table(
    ['task', ...all],
    [...efforts.map(([name, effort]) => [name, ...cells((part) => effort[part])]), ['all', ...cells(sum)]],
  )
}
