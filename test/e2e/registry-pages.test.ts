import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import {
  aGroupMember,
  aMember,
  anAccount,
  aPersonalToken,
  aRepository,
  password,
  signIn,
} from '../support/actors.ts'
import { checkAccess } from '../support/axe.ts'
import { giveCookies, hasBrowser, useBrowser } from '../support/browser.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { aPackageZip, aPublisher, basic } from '../support/registry-actors.ts'
import { setDisplayName } from '../support/session-rows.ts'
import { aZip } from '../support/zip.ts'

const port = await freePort()
const baseURL = `http://127.0.0.1:${port}`

describe.skipIf(!hasBrowser)('the pages of registries in Chromium (chromium is needed)', () => {
  const t = useListeningApp(port)
  const browser = useBrowser()

  /** A signed-in admin of a repository with one version. */
  async function anAdmin(options: { javaScriptEnabled?: boolean } = {}) {
    const account = await anAccount(t.db)
    const repository = await aRepository(t.db)
    await aMember(t.db, account, repository, 'admin')
    const { push } = await aPublisher(t, { repository })
    await push('1.0.0', { payload: aFullPackage() })
    const page = await browser.newPage({ baseURL, viewport: { width: 1280, height: 800 }, ...options })
    await giveCookies(page.context(), baseURL, await signIn(t.app, account))
    return { page, repository, account, packageUrl: `/${repository.path}/packages/acme/lib` }
  }

  /** Presses keys at once. Between two presses, a machine that pauses could end their combination. */
  const pressTogether = (page: Page, ...keys: string[]) =>
    Promise.all(keys.map((key) => page.keyboard.press(key)))

  for (const javaScriptEnabled of [false, true]) {
    it(`deletes a version after a question, ${javaScriptEnabled ? 'in a dialog' : 'without JavaScript'}`, async () => {
      const { page, packageUrl } = await anAdmin({ javaScriptEnabled })
      await page.goto(packageUrl)
      await page.getByRole('link', { name: 'Versions', exact: true }).click()
      // Before the script of the page is there, a link leads to the page of the question.
      await page.waitForLoadState()
      const menu = page.getByLabel('Actions for 1.0.0')
      await menu.click()
      await page.getByRole('link', { name: 'Delete 1.0.0' }).click()
      const dialog = page.getByRole('dialog')
      if (javaScriptEnabled) {
        await dialog.getByRole('link', { name: 'Cancel' }).click()
        await dialog.waitFor({ state: 'detached' })
        await menu.and(page.locator(':focus')).waitFor()
        await menu.click()
        await page.getByRole('link', { name: 'Delete 1.0.0' }).click()
      }
      const question = javaScriptEnabled ? dialog : page
      // A hasty Enter keeps the version. The next keys reach the button.
      await question.locator('[data-cancel]:focus').waitFor()
      await page.keyboard.press('Shift+Tab')
      await question
        .getByRole('button', { name: 'Delete', exact: true })
        .and(page.locator(':focus'))
        .waitFor()
      await page.keyboard.press('Enter')
      await page.getByText('Version 1.0.0 deleted.').waitFor()
      await page.reload()
      expect(await page.getByText('Version 1.0.0 deleted.').count()).toBe(0)
    })
  }

  it('opens pages with keys, which a person can list and turn off', async () => {
    const { page } = await anAdmin()
    const requested: string[] = []
    page.on('request', (request) => {
      if (request.isNavigationRequest()) requested.push(new URL(request.url()).pathname)
    })
    await page.goto('/explore')
    // Without g before it, also just after the page was loaded.
    await page.keyboard.press('t')
    // In a field, the keys are letters.
    await page.keyboard.press('/')
    await page.keyboard.type('gt?')
    expect(await page.getByRole('searchbox', { name: 'Search packages and repositories' }).inputValue()).toBe(
      'gt?',
    )
    await page.locator('h1').click()
    expect(requested).toEqual(['/explore'])
    await pressTogether(page, 'g', 't')
    await page.waitForURL('**/settings/tokens')
    await page.keyboard.press('?')
    const keys = page.getByRole('dialog', { name: 'Keyboard' })
    await checkAccess(page, 'the list of keys')
    await keys.getByLabel('Use these keys').uncheck()
    await page.keyboard.press('Escape')
    // Until the browser draws its next frame, the closed dialog is there, and keys go to its field.
    await page.locator('dialog').waitFor({ state: 'detached' })
    await page.keyboard.type('gh')
    await page.keyboard.press('?')
    expect(await keys.getByLabel('Use these keys').isChecked()).toBe(false)
    await keys.getByLabel('Use these keys').check()
    await keys.getByRole('button', { name: 'Close' }).click()
    expect(new URL(page.url()).pathname).toBe('/settings/tokens')
    await pressTogether(page, 'g', 'h')
    await page.waitForURL((url) => url.pathname === '/')
  })

  it('closes the menu of a row on Escape, which returns to its button, and on a click elsewhere', async () => {
    const { page, packageUrl } = await anAdmin()
    await page.setViewportSize({ width: 375, height: 400 })
    await page.goto(`${packageUrl}/-/versions`)
    const button = page.getByLabel('Actions for 1.0.0')
    const last = page.getByRole('link', { name: 'Delete 1.0.0' })
    await button.focus()
    await page.keyboard.press('Enter')
    // The menu is below the last row, and scrolls into view.
    await expect.poll(async () => ((await last.boundingBox())?.y ?? 1000) < 400).toBe(true)
    await page.keyboard.press('Tab')
    await page.keyboard.press('Escape')
    await last.waitFor({ state: 'hidden' })
    await button.and(page.locator(':focus')).waitFor()
    await page.keyboard.press('Enter')
    await last.waitFor()
    await page.getByRole('heading', { name: 'acme/lib' }).click()
    await last.waitFor({ state: 'hidden' })
  })

  for (const javaScriptEnabled of [false, true]) {
    it(`publishes a zip, ${javaScriptEnabled ? 'with progress' : 'without JavaScript'}`, async () => {
      const { page, repository } = await anAdmin({ javaScriptEnabled })
      await page.goto(`/${repository.path}/-/upload`)
      const choose = (name: string, buffer: Buffer) =>
        page.getByLabel('Zip file').setInputFiles({ name, mimeType: 'application/zip', buffer })
      const send = () => page.getByRole('button', { name: 'Upload', exact: true }).click()
      await choose('broken.zip', Buffer.from('hello'))
      await send()
      await page.getByRole('alert').getByText('not a zip file').waitFor()
      await choose('lib-2.0.0.zip', aFullPackage())
      await send()
      await page.getByRole('heading', { name: 'What would be published' }).waitFor()
      await page.getByLabel('Version').fill('2.1.0')
      await page.getByRole('button', { name: 'Check this version' }).click()
      await page.getByRole('button', { name: 'Publish acme/lib 2.1.0' }).click()
      await page.getByText('acme/lib 2.1.0 is published.').waitFor()
    })
  }

  it('scrolls a wide table of a README, and breaks no word in its head', async () => {
    const { page, repository } = await anAdmin()
    const cells = (text: string) => `|${` ${text} |`.repeat(30)}\n`
    const { push } = await aPublisher(t, { repository })
    const payload = aZip({
      'composer.json': JSON.stringify({ name: 'acme/wide' }),
      'README.md': `${cells('column')}${cells('---')}${cells('cell')}`,
    })
    expect((await push('1.0.0', { name: 'acme/wide', payload })).statusCode).toBe(201)
    await page.goto(`/${repository.path}/packages/acme/wide`)
    const heights = await page
      .locator('.readme tr')
      .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height))
    expect(heights).toHaveLength(2)
    expect(heights[0]).toBeLessThan((heights[1] ?? 0) * 1.5)
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
    expect(overflow).toBeLessThanOrEqual(0)
  })

  it('shows the current tab in high contrast', async () => {
    const { page, packageUrl } = await anAdmin()
    await page.emulateMedia({ forcedColors: 'active' })
    await page.goto(packageUrl)
    for (const tabs of ['main .tabs a', '.top .tabs a']) {
      const visible = await page.locator(tabs).evaluateAll((links) => {
        const ground = getComputedStyle(document.body).backgroundColor
        return links
          .filter((link) => getComputedStyle(link).borderBottomColor !== ground)
          .map((link) => link.getAttribute('aria-current'))
      })
      expect(visible, tabs).toEqual(['page'])
    }
  })

  it('has no page that is wider than a phone for a person whose long name is one word', async () => {
    const { page, account } = await anAdmin()
    await setDisplayName(t.db, account, 'x'.repeat(100))
    await page.setViewportSize({ width: 360, height: 740 })
    await page.goto('/')
    const menu = page.locator('summary.menu-button')
    expect(await menu.textContent()).toContain('x'.repeat(100))
    const widthOver = () => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
    expect(await widthOver()).toBeLessThanOrEqual(0)
    await menu.click()
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    expect(await widthOver()).toBeLessThanOrEqual(0)
  })

  it('publishes a zip that is dropped on the field, with progress', async () => {
    const { page, repository } = await anAdmin()
    const progress: string[] = []
    await page.exposeFunction('noteProgress', (label: string) => progress.push(label))
    await page.goto(`/${repository.path}/-/upload`)
    await page.evaluate(() => {
      const { noteProgress } = window as unknown as { noteProgress: (label: string) => void }
      new MutationObserver(() => {
        const bar = document.querySelector('form progress')
        if (bar) noteProgress(bar.getAttribute('aria-label') ?? '')
      }).observe(document.body, { childList: true, subtree: true })
    })
    const dataTransfer = await page.evaluateHandle((bytes) => {
      const transfer = new DataTransfer()
      transfer.items.add(new File([new Uint8Array(bytes)], 'lib-2.0.0.zip', { type: 'application/zip' }))
      return transfer
    }, Array.from(aFullPackage()))
    const area = page.locator('.drop')
    await area.dispatchEvent('dragover', { dataTransfer })
    expect(await area.getAttribute('class')).toContain('over')
    await area.dispatchEvent('drop', { dataTransfer })
    expect(await area.getAttribute('class')).not.toContain('over')
    expect(await page.getByLabel('Zip file').inputValue()).toContain('lib-2.0.0.zip')
    await page.getByRole('button', { name: 'Upload', exact: true }).click()
    await page.getByRole('heading', { name: 'What would be published' }).waitFor()
    expect(progress).toContain('Upload')
    await page.getByText('lib-2.0.0.zip').first().waitFor()
  })

  it('copies a command, focuses the search with /, and shows relative times', async () => {
    const { page, packageUrl } = await anAdmin()
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: baseURL })
    await page.goto(packageUrl)
    // The button says so for two seconds.
    await Promise.all([
      page.getByRole('button', { name: 'Copied' }).waitFor(),
      page.getByRole('button', { name: 'Copy' }).first().click(),
    ])
    expect(await page.evaluate(() => navigator.clipboard.readText())).toContain('composer require acme/lib')
    await page.keyboard.press('/')
    await page.keyboard.type('lib')
    expect(await page.locator('#find').inputValue()).toBe('lib')
    const time = page.locator('time').first()
    expect(await time.textContent()).toMatch(/now|ago/)
    expect(await time.getAttribute('title')).toMatch(/\d{4}/)
  })

  it('offers repositories once some are to be chosen, and shows the day when the token expires', async () => {
    const { page, repository } = await anAdmin()
    await page.goto('/settings/tokens/new')
    await page.getByLabel('Name', { exact: true }).fill('build server')
    const choice = page.getByLabel(repository.path)
    expect(await choice.isVisible()).toBe(false)
    await page.getByLabel('Only the repositories').check()
    await choice.check()
    // What is chosen stays visible.
    await page.getByLabel('Public repositories only').check()
    expect(await choice.isVisible()).toBe(true)
    await page.getByLabel('Only the repositories').check()
    await page.getByRole('button', { name: 'Create token' }).click()
    await page.getByLabel('The token').waitFor()
    expect(await page.locator('main time').textContent()).toMatch(/^on \d+ \w+ \d{4}, /)
  })

  it('shows on the open page Set up that the first upload has arrived', async () => {
    const { page, repository, account } = await anAdmin()
    await page.goto(`/${repository.path}/-/setup`)
    const published = page.locator('#published')
    await page.locator('summary', { hasText: 'Publish' }).click()
    await published.getByText('Waiting for your first upload').waitFor()
    const token = await aPersonalToken(t.db, account, { scopes: ['registry-package:rw'] })
    await t.app.inject({
      method: 'PUT',
      url: `/${repository.path}/-/packages/upload/acme/lib/1.1.0`,
      headers: { authorization: basic(token) },
      payload: aPackageZip('acme/lib'),
    })
    // A page that gets to it half a minute later says so.
    await published.getByText(/^Published acme\/lib 1\.1\.0 (?:just now|1 minute ago)\.$/).waitFor()
  })

  it('has one search field on the search page of a phone', async () => {
    const { page } = await anAdmin()
    const fields = page.getByRole('searchbox')
    await page.setViewportSize({ width: 375, height: 740 })
    await page.goto('/search?q=lib')
    expect(await fields.count()).toBe(1)
    expect(await fields.inputValue()).toBe('lib')
    await page.goto('/docs/packages')
    expect(await page.locator('#find').isVisible()).toBe(true)
  })

  it('filters the packages of a repository while the user types', async () => {
    const { page, repository } = await anAdmin()
    await page.goto(`/${repository.path}`)
    const shown = page.locator('#packages').getByRole('link', { name: 'acme/lib' })
    await shown.waitFor()
    const field = page.locator('input[data-filters]')
    await field.fill('zzz')
    await shown.waitFor({ state: 'hidden' })
    const nothing = page.getByRole('status').filter({ hasText: 'Nothing on this page matches' })
    await nothing.waitFor()
    await field.fill('LIB')
    await shown.waitFor()
    await nothing.waitFor({ state: 'hidden' })
  })

  it('can be used with the keyboard alone: sign in, find a package, copy its command, sign out', async () => {
    const { page, repository, account, packageUrl } = await anAdmin()
    await page.context().clearCookies()
    await page.goto(packageUrl)
    /** Presses Tab until the focus is on an element with this text. */
    const tabTo = async (text: string) => {
      for (let presses = 0; presses < 60; presses += 1) {
        await page.keyboard.press('Tab')
        const focused = await page.evaluate(() => document.activeElement?.textContent?.trim() ?? '')
        if (focused.includes(text)) return
      }
      throw new Error(`the focus never came to ${text}`)
    }
    await tabTo('Sign in')
    await page.keyboard.press('Enter')
    // The page has the focus in the first field.
    await page.getByLabel('Username or email').and(page.locator(':focus')).waitFor()
    await page.keyboard.type(account.username)
    await page.keyboard.press('Tab')
    await page.keyboard.type(password)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'acme/lib' }).waitFor()
    // The heading may be there before the script that listens to keys.
    await page.waitForLoadState()
    await page.keyboard.press('/')
    await page.keyboard.type(repository.path.split('/')[1] ?? '')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/search?**')
    await tabTo(repository.path)
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/${repository.path}`)
    await tabTo('Set up')
    await page.keyboard.press('Enter')
    // The script of the page closes a menu on Escape.
    await page.waitForURL('**/-/setup')
    await tabTo('Menu of')
    await page.keyboard.press('Enter')
    await tabTo('Sign out')
    expect(await page.evaluate(() => document.activeElement?.matches(':focus-visible'))).toBe(true)
    await page.keyboard.press('Escape')
    expect(await page.locator('details.menu').getAttribute('open')).toBeNull()
    await page.keyboard.press('Enter')
    await tabTo('Sign out')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Sign in' }).first().waitFor()
  })

  it('has feeds that are well-formed XML, with the elements that Atom requires (RFC 4287 §4.1)', async () => {
    const { push, repository, authorization } = await aPublisher(t)
    await push('1.0.0', { manifest: { description: `<b> & "quotes" ]]> 'and' 💡` } })
    const page = await browser.newPage({ baseURL })
    await page.goto('/docs')
    for (const url of [
      `/${repository.path}/-/feed.atom`,
      `/${repository.path}/packages/acme/lib/-/feed.atom`,
    ]) {
      const response = await fetch(baseURL + url, { headers: { authorization } })
      const feed = await page.evaluate(
        (xml) => {
          const parsed = new DOMParser().parseFromString(xml, 'application/xml')
          const children = (node: Element | null) =>
            [...(node?.children ?? [])].map(({ localName }) => localName)
          return {
            error: parsed.querySelector('parsererror')?.textContent,
            namespace: parsed.documentElement.namespaceURI,
            feed: children(parsed.documentElement),
            entry: children(parsed.querySelector('entry')),
            summary: parsed.querySelector('summary')?.textContent,
          }
        },
        await response.text(),
      )
      expect(feed.error).toBeUndefined()
      expect(feed.namespace).toBe('http://www.w3.org/2005/Atom')
      expect(feed.feed).toEqual(expect.arrayContaining(['id', 'title', 'updated', 'author', 'entry']))
      expect(feed.entry).toEqual(expect.arrayContaining(['id', 'title', 'updated', 'link']))
      expect(feed.summary).toBe(`<b> & "quotes" ]]> 'and' 💡`)
    }
  })

  it('shows the API without JavaScript and without requests to other sites', async () => {
    const page = await browser.newPage({ baseURL, javaScriptEnabled: false })
    const elsewhere: string[] = []
    page.on('request', (request) => {
      if (!request.url().startsWith(baseURL)) elsewhere.push(request.url())
    })
    await page.goto('/docs/api')
    await page.locator('#getPackage summary').press('Enter')
    await page.getByText('Responses: 200').filter({ visible: true }).waitFor()
    await page.locator('#getPackage').getByRole('link', { name: 'PackageWithVersions' }).click()
    await page.getByRole('heading', { name: 'PackageWithVersions', exact: true }).waitFor()
    expect(new URL(page.url()).pathname).toBe('/docs/api/types')
    expect(elsewhere).toEqual([])
  })

  it('creates and revokes a deploy token, after a mistake', async () => {
    const { page, repository, account } = await anAdmin()
    await aGroupMember(t.db, account, repository.group, 'admin')
    const group = repository.group.name
    await page.goto(`/${group}/-/deploy-tokens/new`)
    await page.getByLabel('Name', { exact: true }).fill('ci')
    await page.getByRole('button', { name: 'Create token' }).click()
    await page.getByText('Choose at least one repository.').waitFor()
    await page.getByLabel('Every repository of the group').check()
    await page.getByRole('button', { name: 'Create token' }).click()
    await page.getByText('Copy it now').waitFor()
    await page.goto(`/${group}/-/deploy-tokens`)
    await page.getByLabel('Actions for ci').click()
    await page.getByRole('link', { name: 'Revoke ci' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
    await page.getByText('The deploy token ci was revoked.').waitFor()
  }, 300_000)
})

/** A package that has something for each part of its pages. */
function aFullPackage(): Buffer {
  return aZip({
    'composer.json': JSON.stringify({
      name: 'acme/lib',
      description: 'Counts things, quickly and in order',
      license: 'MIT',
      require: { php: '>=8.2', 'acme/other': '^1.0' },
      'require-dev': { 'phpunit/phpunit': '^11' },
    }),
    'README.md': readme,
    'logo.svg':
      '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><circle r="20" cx="20" cy="20"/></svg>',
    'src/Lib.php': `<?php\n\nclass Lib {\n    const LONG = '${'long '.repeat(60)}';\n}\n`,
  })
}

const readme = `# Lib

![Logo](logo.svg) ![Build](https://ci.test/badge.svg)

- [x] counts
- [ ] sleeps

| Option | Default |
|---|---|
| \`from\` | 1 |

\`\`\`php
<?php // Counts
$lib = new Lib(from: 1, name: "one");
\`\`\`

See [the class](src/Lib.php) and [the site](https://acme.test).
`
