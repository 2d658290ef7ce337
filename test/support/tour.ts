import type { Browser, Page } from 'playwright-core'
import { password } from './actors.ts'
import { codeOf } from './factor-actors.ts'
import { pixel } from './oauth-actors.ts'
import { type TourData, tourZip } from './tour-data.ts'

/** The person who opens a page: `otto` has a second factor. */
export type Viewer = 'visitor' | 'ann' | 'nora' | 'root' | 'otto'

/** A page in one of its states. */
export interface Stop {
  name: string
  viewer: Viewer
  url: string
  /** The actions on the page that lead to the state, such as sending a form with a mistake. */
  act?: (page: Page) => Promise<void>
}

/**
 * Every page in its main states: the pages that are checked with axe, and that `npm run screenshots` shows. A state that
 * an act makes of a page is after this page, which is then loaded once.
 */
export const tour: Record<string, (data: TourData) => Stop[]> = {
  'of visitors': signedOut,
  'of registries': registries,
  'of packages': packages,
  'of a person': personal,
  'of administrators': administration,
}

function signedOut({ application, invitation, unsubscription }: TourData): Stop[] {
  return by('visitor', {
    front: '/',
    login: '/login',
    'login-refused': [
      '/login',
      async (page) => {
        await page.getByLabel('Username or email').fill('nobody')
        await page.getByLabel('Password').fill('wrong')
        await press(page, 'Sign in')
      },
    ],
    'login-application': `/oauth2/auth?${new URLSearchParams({ response_type: 'code', client_id: application.clientId })}`,
    'login-passkey': '/login/passkey',
    'password-reset': '/password-reset',
    'password-reset-expired': '/password-reset?token=x',
    'sign-up': '/sign-up',
    'sign-up-refused': ['/sign-up', (page) => submit(page, { Email: 'no' })],
    invitation: `/invitations?token=${invitation}`,
    'invitation-expired': '/invitations?token=x',
    unsubscribe: `/unsubscribe?token=${unsubscription}`,
    unsubscribed: [`/unsubscribe?token=${unsubscription}`, (page) => press(page, 'Unsubscribe')],
    explore: '/explore',
    'public-repository': '/acme/open',
    'public-package': '/acme/open/packages/acme/money',
    'not-found-visitor': '/acme/php',
    docs: '/docs',
    'status-visitor': '/status',
    'docs-search': '/docs?q=backup',
    'docs-nothing': '/docs?q=zzzz',
    document: '/docs/packages',
    'document-long': '/docs/operations',
    'document-tables': '/docs/second-factor',
    'docs-api': ['/docs/api', (page) => page.locator('summary').nth(3).click()],
    'docs-api-types': '/docs/api/types',
  })
}

function registries({ stages, sources }: TourData): Stop[] {
  const own = '/acme/php/-'
  const broken = { name: 'notes.zip', mimeType: 'application/zip', buffer: Buffer.from('hello') }
  const version = tourZip('acme/billing', '3.0.0')
  return [
    ...by('nora', { 'home-newcomer': '/', 'not-found': '/acme/php' }),
    ...by('ann', {
      home: '/',
      menu: ['/', (page) => page.locator('summary.menu-button').click()],
      'my-repositories': '/?q=php',
      group: '/acme',
      'group-members': '/acme/-/members',
      'group-members-menu': ['/acme/-/members', (page) => page.getByLabel('Actions for bob').click()],
      'group-members-role-refused': [
        '/acme/-/members',
        async (page) => {
          await page.getByLabel('Actions for ann').click()
          await press(page, 'Make ann guest')
        },
      ],
      'group-member-new': '/acme/-/members/new',
      'group-member-new-refused': [
        '/acme/-/members/new',
        (page) => submit(page, { Username: 'nobody' }, 'Add member'),
      ],
      'group-members-remove': '/acme/-/members/remove?username=bob',
      'group-activity': '/acme/-/activity',
      'group-activity-filtered': '/acme/-/activity?action=members',
      'group-invitations': '/acme/-/invitations',
      'group-invitation-new': '/acme/-/invitations/new',
      'group-invitation-made': ['/acme/-/invitations/new', (page) => press(page, 'Invite')],
      'group-settings': '/acme/-/settings',
      'group-second-factor': '/acme/-/settings/second-factor',
      'group-leave': '/acme/-/leave',
      projects: '/acme/-/projects',
      'projects-of-package': '/acme/-/projects?package=acme/money&constraint=<2',
      'projects-refused': '/acme/-/projects?constraint=<2',
      project: '/acme/-/projects/shop',
      'project-delete': '/acme/-/projects/shop/delete',
      'project-lock-new': '/acme/-/projects/new',
      policies: '/acme/-/policies',
      policy: '/acme/-/policies/1',
      'policy-edit': '/acme/-/policies/1/edit',
      'policy-remove': '/acme/-/policies/1/remove',
      'policy-checked': [
        '/acme/-/policies/new',
        (page) => submit(page, { 'Packages or licences': 'psr/*', Reason: 'Too old' }, 'What would break?'),
      ],
      'policy-refused': [
        '/acme/-/policies/new',
        (page) => submit(page, { 'Packages or licences': 'lib', Reason: 'Too old' }, 'Add rule'),
      ],
      'group-webhooks': '/acme/-/webhooks',
      'group-deploy-tokens': '/acme/-/deploy-tokens',
      'group-deploy-token-new-refused': ['/acme/-/deploy-tokens/new', (page) => submit(page, { Name: 'ci' })],
      'group-deploy-token-made': [
        '/acme/-/deploy-tokens/new',
        async (page) => {
          await page.getByLabel('Every repository of the group').check()
          await submit(page, { Name: 'ci' })
        },
      ],
      repository: '/acme/php',
      'repository-empty': '/acme/empty',
      'repository-no-match': '/acme/php?q=nothing',
      setup: `${own}/setup`,
      'setup-github': `${own}/setup?tool=github`,
      'setup-gitlab': `${own}/setup?tool=gitlab`,
      'setup-curl': `${own}/setup?tool=curl`,
      'setup-netrc': `${own}/setup?tool=netrc`,
      mirror: '/acme/php/packages/psr/log',
      'mirror-not-stored': '/acme/php/packages/psr/log?version=2.0.0',
      'mirror-waiting': '/acme/php/packages/monolog/monolog',
      'mirror-versions': '/acme/php/packages/psr/log/-/versions',
      'mirror-dependencies': '/acme/php/packages/psr/log/-/dependencies',
      'mirror-dependents': '/acme/php/packages/psr/log/-/dependents',
      'mirror-compare': '/acme/php/packages/psr/log/-/compare',
      'mirror-files': '/acme/php/packages/psr/log/-/files',
      'mirror-advisories': '/acme/php/packages/psr/log/-/advisories',
      'mirror-activity': '/acme/php/packages/psr/log/-/activity',
      upstreams: `${own}/upstreams`,
      'upstreams-empty': '/acme/empty/-/upstreams',
      'upstream-list': `${own}/upstreams/list`,
      'upstream-list-empty': '/acme/empty/-/upstreams/list',
      'upstream-vendors': `${own}/upstreams/vendors`,
      'upstream-change': `${own}/upstreams/set?name=packagist`,
      'upstream-approve': `${own}/upstreams/approve`,
      'upstream-claim': `${own}/upstreams/claim`,
      'upstreams-refused': [
        '/acme/empty/-/upstreams/new',
        (page) => submit(page, { URL: 'ftp://example.com' }, 'Add upstream'),
      ],
      members: `${own}/members`,
      activity: `${own}/activity`,
      'activity-empty': '/acme/empty/-/activity',
      settings: `${own}/settings`,
      'repository-advisories': `${own}/advisories`,
      'repository-advisories-preview': [
        `${own}/advisories`,
        async (page) => {
          const records = ['GHSA-7kq2-m4tz-x3dp', 'GHSA-aaaa-bbbb-cccc'].map((id, i) => ({
            id,
            modified: '2026-11-01T00:00:00Z',
            summary: 'Path traversal',
            affected: [
              {
                package: { ecosystem: 'Packagist', name: i === 0 ? 'acme/billing' : 'other/package' },
                ranges: [{ type: 'ECOSYSTEM', events: [{ introduced: '0' }, { fixed: '2.0.0' }] }],
              },
            ],
          }))
          const buffer = Buffer.from(JSON.stringify(records))
          await page
            .getByLabel('File')
            .setInputFiles({ name: 'a.json', mimeType: 'application/json', buffer })
          await press(page, 'Preview')
        },
      ],
      retention: `${own}/settings/retention`,
      'retention-refused': `${own}/settings/retention/preview?keep_development=0`,
      'retention-preview': `${own}/settings/retention/preview?keep_development=1&deleted_archives_days=30`,
      'retention-kept': `${own}/settings/retention/preview?keep_development=1&deleted_archives_days=30&act=keep`,
      'retention-saved': [
        `${own}/settings/retention/preview?keep_development=2&deleted_archives_days=30`,
        (page) => press(page, 'Save these rules'),
      ],
      'settings-delete': `${own}/settings/delete`,
      'settings-rename-refused': [
        `${own}/settings/rename`,
        (page) => submit(page, { 'New name': 'No Name' }),
      ],
      'settings-publish': [
        `${own}/settings`,
        async (page) => {
          await page.getByLabel('Public').check()
          await press(page, 'Save')
        },
      ],
      'deploy-tokens': `${own}/deploy-tokens`,
      'deploy-token-new': `${own}/deploy-tokens/new`,
      'trusted-publishers': `${own}/trusted-publishers`,
      'trusted-publishers-gitlab': `${own}/trusted-publishers?ci=gitlab`,
      'trusted-publishers-empty': '/acme/empty/-/trusted-publishers?ci=forgejo',
      'trusted-publisher-new': `${own}/trusted-publishers/new`,
      'trusted-publisher-new-refused': [
        `${own}/trusted-publishers/new`,
        (page) => submit(page, { Project: 'billing', 'Workflow file': 'release.yml' }),
      ],
      sources: `${own}/sources`,
      'sources-empty': '/acme/empty/-/sources',
      'source-new': `${own}/sources/new`,
      'source-new-refused': [
        `${own}/sources/new`,
        (page) => submit(page, { URL: 'ssh://git@git.example.com/acme/lib.git' }),
      ],
      'source-made': [
        '/acme/empty/-/sources/new',
        (page) => submit(page, { URL: 'https://1.1.1.1/acme/lib.git' }, 'Add Git source'),
      ],
      source: `${own}/sources/${sources.healthy}`,
      'source-failing': `${own}/sources/${sources.failing}`,
      'source-unconfirmed': `${own}/sources/${sources.unconfirmed}`,
      'source-hook-secret': `${own}/sources/${sources.healthy}/hook-secret`,
      'source-remove': `${own}/sources/${sources.healthy}/remove`,
      webhooks: `${own}/webhooks`,
      'webhook-new-refused': [
        `${own}/webhooks/new`,
        (page) => submit(page, { URL: 'https://10.0.0.1/hook' }),
      ],
      'webhook-made': [`${own}/webhooks/new`, (page) => submit(page, { URL: 'https://1.1.1.1/hook' })],
      webhook: `${own}/webhooks/1`,
      'webhook-edit': `${own}/webhooks/1/edit`,
      'webhook-delivery': `${own}/webhooks/1/deliveries/1`,
      stages: `${own}/stages`,
      'stages-empty': '/acme/empty/-/stages',
      stage: `${own}/stages/${stages.waiting}`,
      'stage-first': `${own}/stages/${stages.first}`,
      'stage-released': `${own}/stages/${stages.released}`,
      upload: `${own}/upload`,
      'upload-refused': [`${own}/upload`, (page) => upload(page, broken)],
      'upload-preview': [
        `${own}/upload`,
        (page) => upload(page, { ...broken, name: 'billing-3.0.0.zip', buffer: version }),
      ],
      'upload-preview-refused': [
        `${own}/upload`,
        async (page) => {
          await upload(page, { ...broken, buffer: version })
          await submit(page, { Version: 'v1' }, 'Check this version')
        },
      ],
      search: '/search?q=money',
      'search-nothing': '/search?q=zzzz',
      'new-group': '/new/group',
      'new-group-refused': ['/new/group', (page) => submit(page, { Name: 'Acme Corp' })],
      'new-repository': '/new/repository',
      'new-repository-refused': ['/new/repository', (page) => submit(page, { Name: 'php' })],
    }),
  ]
}

function packages(): Stop[] {
  const own = '/acme/php/packages/acme'
  return by('ann', {
    package: `${own}/billing`,
    'package-prerelease': `${own}/billing?version=2.1.0-beta.1`,
    'package-abandoned': `${own}/mailer?version=1.0.0`,
    'package-menu': [
      `${own}/mailer?version=1.0.0`,
      (page) => page.getByLabel('Actions for acme/mailer').click(),
    ],
    'package-affected': `${own}/money?version=1.0.0`,
    'version-deleted': `${own}/mailer?version=1.1.0`,
    versions: `${own}/mailer/-/versions`,
    'versions-menu': [
      `${own}/mailer/-/versions`,
      (page) => page.locator('details.acts summary').last().click(),
    ],
    'versions-affected': `${own}/money/-/versions`,
    'version-quarantine': `${own}/billing/-/versions/quarantine?version=1.0.0`,
    'version-delete-dialog': [
      `${own}/billing/-/versions`,
      async (page) => {
        await page.getByLabel('Actions for 1.0.0').click()
        await page.getByRole('link', { name: 'Delete 1.0.0' }).click()
        await page.getByRole('dialog').waitFor()
      },
    ],
    dependencies: `${own}/billing/-/dependencies`,
    dependents: `${own}/money/-/dependents`,
    'used-by': `${own}/money/-/used-by`,
    'used-by-empty': `${own}/billing/-/used-by`,
    'dependents-empty': `${own}/billing/-/dependents`,
    files: `${own}/billing/-/files`,
    'files-folder': `${own}/billing/-/files?path=src`,
    file: `${own}/billing/-/files?path=src/Lib.php`,
    compare: `${own}/billing/-/compare`,
    'package-abandon': `${own}/billing/-/versions/abandon`,
    'package-abandon-change': `${own}/mailer/-/versions/abandon`,
    advisories: `${own}/money/-/advisories`,
    'advisory-new-refused': [
      `${own}/billing/-/advisories/new`,
      (page) => submit(page, { Title: 'x', 'Affected versions': 'all of them' }),
    ],
    'package-activity': `${own}/billing/-/activity`,
    'package-downloads': `${own}/billing/-/downloads`,
    'package-downloads-version': `${own}/billing/-/downloads?version=1.0.0`,
    'package-downloads-empty': `${own}/money/-/downloads`,
  })
}

/** The link of an application with a client metadata document. */
function linkOfDocument(clientId: string): string {
  const code_challenge = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
  const pkce = { code_challenge, code_challenge_method: 'S256' }
  return `/oauth2/auth?${new URLSearchParams({ response_type: 'code', client_id: clientId, ...pkce })}`
}

function personal({ application, many, userCode, documents }: TourData): Stop[] {
  let recoveryCodes: string[] = []
  const consent = `/oauth2/auth?${new URLSearchParams({
    response_type: 'code',
    client_id: application.clientId,
    prompt: 'consent',
  })}`
  return [
    ...by('ann', {
      account: '/settings/account',
      'account-menu': ['/settings/account', (page) => page.getByLabel('Actions for your account').click()],
      'account-refused': [
        '/settings/account/password',
        (page) => submit(page, { 'Current password': 'no', 'New password': 'x' }, 'Change password'),
      ],
      'account-profile': '/settings/account/profile',
      'account-username': '/settings/account/sign-in',
      'account-delete': '/settings/account/delete',
      notifications: '/settings/notifications',
      'second-factor': '/settings/second-factor',
      security: '/settings/security',
      sessions: '/settings/sessions',
      tokens: '/settings/tokens',
      'token-new': '/settings/tokens/new?preset=publish&repository=acme/php',
      'token-new-single': [
        '/settings/tokens/new',
        (page) => page.getByLabel('Choose single permissions').check(),
      ],
      'token-new-refused': [
        '/settings/tokens/new',
        async (page) => {
          await page.getByLabel('Only the repositories you choose').check()
          await submit(page, { Name: 'x' }, 'Create token')
        },
      ],
      'token-made': [
        '/settings/tokens/new?preset=pull&repository=acme/php',
        (page) => submit(page, { Name: 'workshop' }, 'Create token'),
      ],
      'token-revoke': [
        '/settings/tokens',
        async (page) => {
          await page.getByLabel('Actions for build server').click()
          await page.getByRole('link', { name: 'Revoke build server' }).click()
          await page.getByRole('dialog').waitFor()
        },
      ],
      authorizations: '/settings/authorizations',
      'authorizations-end': [
        '/settings/authorizations',
        async (page) => {
          await page.getByRole('link', { name: 'End this one from 203.0.113.7' }).click()
          await page.getByRole('dialog').waitFor()
        },
      ],
      'authorizations-all': `/settings/authorizations/grants?authorization=${many}`,
      'own-applications': '/settings/applications',
      'new-application': '/settings/applications/new',
      'new-application-refused': [
        '/settings/applications/new',
        (page) => submit(page, { Name: 'x'.repeat(51), 'Official website': 'bot' }),
      ],
      'new-application-text': [
        '/settings/applications/new',
        async (page) => {
          await describeApplication(page)
          await press(page, 'Check and make the text')
          await page.getByRole('link', { name: 'Write the mail' }).waitFor()
        },
      ],
      'new-application-complete': [
        '/settings/applications/new',
        async (page) => {
          await describeApplication(page)
          // No button is pressed: the server checks while the person types.
          await page.getByText('The details are complete').waitFor()
          await page.locator('summary', { hasText: 'What people will read' }).click()
        },
      ],
      consent,
      'consent-resource': [
        consent,
        async (page) => {
          const resource = new URL('/acme/php/-/packages/', page.url()).href
          await page.goto(`${consent}&resource=${encodeURIComponent(resource)}`)
        },
      ],
      'consent-refused': [
        consent,
        async (page) => {
          // The application has access to some already, which are ticked.
          const ticked = page.locator('[name=repository]:checked')
          while ((await ticked.count()) > 0) await ticked.first().uncheck()
          await press(page, 'Authorize')
        },
      ],
      'consent-unreviewed': linkOfDocument(documents.unreviewed),
      'consent-local': linkOfDocument(documents.local),
      'consent-waits': `${linkOfDocument(documents.changed)}&redirect_uri=https://agent.elsewhere.example/callback`,
      logout: '/oauth2/logout?state=x&post_logout_redirect_uri=https://app.example.com/',
      device: '/device',
      'device-refused': ['/device', (page) => submit(page, { Code: 'ABCD' })],
      'device-consent': [
        `/device?user_code=${userCode}`,
        (page) => page.getByRole('button', { name: 'Authorize' }).waitFor(),
      ],
      'device-approved': '/device/approved',
      'device-denied': '/device/denied',
      'link-error': '/oauth2/auth?client_id=unknown',
      'bad-request': '/?q=a&q=b',
    }),
    ...by('nora', {
      'authorizations-empty': '/settings/authorizations',
      'consent-nothing-to-choose': consent,
    }),
    ...by('otto', {
      'confirm-access-no-factor': '/settings/confirm-access?need=factor',
      'totp-new': ['/settings/second-factor', (page) => press(page, 'Set up an authenticator app')],
      'recovery-codes': [
        '/settings/second-factor/totp',
        async (page) => {
          const secret = (await page.locator('#secret').textContent()) ?? ''
          await page.locator('input[name="code"]').fill(codeOf(secret.replaceAll(' ', '')))
          await page.locator('input[name="code"]').press('Enter')
          recoveryCodes = ((await page.locator('#codes').textContent()) ?? '').split('\n')
        },
      ],
      'confirm-access-factor': '/settings/confirm-access?need=factor',
      'second-factor-on': '/settings/second-factor',
      'totp-remove': '/settings/second-factor/totp/remove',
      'group-second-factor-choice': `${longGroup}/-/settings/second-factor`,
      'projects-empty': `${longGroup}/-/projects`,
      'passkey-new': '/settings/second-factor/passkeys/new',
    }),
    ...by('visitor', {
      'second-step': [
        '/login',
        async (page) => {
          await page.getByLabel('Username or email').fill('otto')
          await page.getByLabel('Password').fill(password)
          await press(page, 'Sign in')
        },
      ],
      'totp-replace': [
        '/login/second-factor',
        async (page) => {
          await page.getByText('Use a recovery code').click()
          await page.getByLabel('Recovery code').fill(recoveryCodes[0] ?? '')
          await press(page, 'Sign in with a recovery code')
          await Promise.all([
            page.waitForEvent('domcontentloaded'),
            page.getByRole('link', { name: 'Replace the authenticator app' }).last().click(),
          ])
        },
      ],
    }),
  ]
}

const longGroup = '/a-group-with-a-name-as-long-as-a-name-of-a-group-can-be-64-chars'

function administration({ application, pending, portal, documents, waiting }: TourData): Stop[] {
  return by('root', {
    admin: '/admin',
    status: '/status',
    'admin-accounts': '/admin/accounts',
    'admin-accounts-menu': ['/admin/accounts', (page) => page.locator('details.acts summary').last().click()],
    'admin-accounts-without-factor': '/admin/accounts?state=without-second-factor',
    'admin-account-new': '/admin/accounts/-/new',
    'admin-account-new-refused': [
      '/admin/accounts/-/new',
      (page) => submit(page, { Username: 'No Name' }, 'Create account'),
    ],
    'admin-account': '/admin/accounts/ann',
    'admin-account-menu': ['/admin/accounts/otto', (page) => page.getByLabel('Actions for otto').click()],
    'admin-account-details': '/admin/accounts/ann/details',
    'admin-account-delete': '/admin/accounts/ann/delete',
    'admin-account-own': '/admin/accounts/root',
    'admin-invitations': '/admin/invitations',
    'admin-invitation-new': '/admin/invitations/new',
    'admin-applications': '/admin/applications',
    'admin-applications-empty': '/admin/applications?state=suspended',
    'admin-application': `/admin/applications/${application.clientId}`,
    'admin-application-unreachable': `/admin/applications/${portal.clientId}`,
    'admin-application-pending': `/admin/applications/${pending.clientId}`,
    'admin-application-unreviewed': `/admin/applications/${encodeURIComponent(documents.unreviewed)}`,
    'admin-documents': '/admin/applications/documents',
    'admin-documents-rejected': '/admin/applications/documents?state=rejected',
    'admin-documents-empty': '/admin/applications/documents?after=999999',
    'admin-document': `/admin/applications/documents/${waiting.fresh}`,
    'admin-document-changed': `/admin/applications/documents/${waiting.changed}`,
    'admin-document-rejected': `/admin/applications/documents/${waiting.rejected}`,
    'admin-document-reject': `/admin/applications/documents/${waiting.fresh}/reject`,
    'not-found-document': '/admin/applications/documents/0',
    'admin-application-new': '/admin/applications/new',
    'admin-application-pasted': [
      '/admin/applications/new',
      async (page) => {
        await submit(page, {
          'Text of a developer':
            'Name: Build Bot\nWebsite: https://bot.example.com\nRedirect URL: ftp://bot.example.com',
        })
      },
    ],
    'admin-application-edit': `/admin/applications/${application.clientId}/edit`,
    'admin-groups': '/admin/groups',
    'admin-group': '/admin/groups?group=acme',
    'admin-group-rename': '/admin/groups/rename?group=acme',
    'admin-group-delete': '/admin/groups/delete?group=acme',
    'admin-group-long': `/admin/groups?group=${longGroup.slice(1)}`,
    'admin-repositories': '/admin/repositories',
    'admin-webhooks': '/admin/webhooks',
    'admin-events': '/admin/events',
    'admin-events-refused': '/admin/events?since=yesterday',
    'admin-events-nothing': '/admin/events?ip=192.0.2.1',
    'admin-system': '/admin/system',
  })
}

function by(viewer: Viewer, pages: Record<string, string | [string, NonNullable<Stop['act']>]>): Stop[] {
  return Object.entries(pages).map(([name, page]) =>
    typeof page === 'string' ? { name, viewer, url: page } : { name, viewer, url: page[0], act: page[1] },
  )
}

/** A page as it was served. */
export interface Served {
  status: number
  html: string
}

/**
 * Opens the pages one after another, in the browser of their viewer. `look` gets the page, and the response before the
 * act. Each viewer has one tab, because a new tab takes longer than most pages. A page that the tab still shows as it was
 * served is not loaded again. The tab keeps its color scheme, which is light at first.
 */
export async function walk(
  { browser, baseURL, width }: { browser: Pick<Browser, 'newContext'>; baseURL: string; width: number },
  stops: readonly Stop[],
  look: (page: Page, stop: Stop, served: Served) => Promise<void>,
): Promise<void> {
  const tabs = new Map<Viewer, { page: Page; shown?: Served & { url: string } }>()
  try {
    for (const stop of stops) {
      let tab = tabs.get(stop.viewer)
      if (!tab) {
        const context = await browser.newContext({ baseURL })
        context.setDefaultTimeout(60_000)
        tab = { page: await context.newPage() }
        tabs.set(stop.viewer, tab)
        if (stop.viewer !== 'visitor') await signIn(tab.page, stop.viewer)
      }
      const { page, shown } = tab
      await page.setViewportSize({ width, height: 800 })
      const served = shown?.url === stop.url ? shown : await load(page, stop)
      if (stop.act) {
        delete tab.shown
        await stop.act(page)
        // An act may end as soon as it sees its page, whose script has not run yet.
        await page.waitForLoadState()
      } else tab.shown = { ...served, url: stop.url }
      await look(page, stop, served)
    }
  } finally {
    for (const { page } of tabs.values()) await page.context().close()
  }
}

async function load(page: Page, { name, url }: Stop): Promise<Served> {
  const response = await page.goto(url)
  if (!response) throw new Error(`${name}: no response`)
  return { status: response.status(), html: await response.text() }
}

/** Sends the form of the sign-in. To fill it in on its page takes much longer. */
async function signIn({ request }: Page, username: string): Promise<void> {
  const form = await (await request.get('/login')).text()
  const csrf = /name="csrf_token" value="([^"]+)"/.exec(form)?.[1] ?? ''
  const fields = { csrf_token: csrf, username, password }
  const response = await request.post('/login', { form: fields, maxRedirects: 0 })
  if (response.status() !== 303) throw new Error(`${username} could not sign in: ${response.status()}`)
}

async function press(page: Page, button: string): Promise<void> {
  await Promise.all([
    page.waitForEvent('domcontentloaded'),
    page.getByRole('button', { name: button, exact: true }).click(),
  ])
}

/** Fills fields and sends their form, also when the browser would refuse it. */
async function submit(page: Page, fields: Record<string, string>, button?: string): Promise<void> {
  await page.evaluate(() => {
    for (const form of document.querySelectorAll('form')) form.noValidate = true
  })
  const form = page.locator('main form').filter({ has: page.getByLabel(Object.keys(fields)[0] as string) })
  for (const [label, text] of Object.entries(fields)) {
    await form.getByLabel(label).first().fill(text)
  }
  const to = button
    ? form.getByRole('button', { name: button, exact: true })
    : form.locator('button[type="submit"]')
  await Promise.all([page.waitForEvent('domcontentloaded'), to.first().click()])
}

async function upload(page: Page, file: { name: string; mimeType: string; buffer: Buffer }): Promise<void> {
  await page.getByLabel('Zip file').setInputFiles(file)
  await page.getByRole('button', { name: 'Upload', exact: true }).click()
  await page.locator('[role="alert"], h2:has-text("What would be published")').first().waitFor()
  // The heading may be there before the rest of its page. What comes next waits for the event of another page.
  await page.waitForLoadState()
}

/** Fills in the form of “Get an application”. */
async function describeApplication(page: Page): Promise<void> {
  await page.getByLabel('Name', { exact: true }).fill('Build Bot')
  await page.locator('#description').fill('Builds your packages after each push.')
  await page.getByLabel('Official website').fill('https://bot.example.com')
  await page.getByLabel('Redirect URL').fill('https://bot.example.com/callback')
  await page.locator('summary', { hasText: 'Packages' }).click()
  await page.getByLabel('See, install and publish packages').check()
  await page.locator('summary', { hasText: 'Packages' }).click()
  await page.getByLabel('Logo').setInputFiles({ name: 'logo.png', mimeType: 'image/png', buffer: pixel })
}
