import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { allScopes } from '../../src/domain/scopes.ts'
import { setProofAge } from '../support/account-rows.ts'
import { aMember, anAccount, aRepository, password, signIn } from '../support/actors.ts'
import { giveCookies, hasBrowser, useBrowser } from '../support/browser.ts'
import { useListeningApp } from '../support/listening.ts'
import { anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { freePort } from '../support/program.ts'
import { aPublisher } from '../support/registry-actors.ts'

const port = await freePort()
const baseURL = `http://127.0.0.1:${port}`

describe.skipIf(!hasBrowser)(
  'the pages of an account in Chromium, without JavaScript (chromium is needed)',
  () => {
    const t = useListeningApp(port)
    const browser = useBrowser()

    /** A person who has just signed in on a phone. Without scripts, unless `hasScripts`. */
    async function aVisitor(hasScripts = false) {
      const account = await anAccount(t.db)
      const repository = await aRepository(t.db)
      await aMember(t.db, account, repository, 'developer')
      const viewport = { width: 360, height: 740 }
      const page = await browser.newPage({ baseURL, viewport, javaScriptEnabled: hasScripts })
      await giveCookies(page.context(), baseURL, await signIn(t.app, account))
      return { account, repository, page }
    }

    /** Returns the elements that extend beyond the right edge of the window, or of their card or list item. */
    const overflowing = (page: Page) =>
      page.locator('body *:not(.hidden)').evaluateAll((all) => {
        const scrolls = (one: Element) => getComputedStyle(one).overflowX === 'auto'
        const scrollers = all.filter(scrolls)
        return all
          .filter((one) => {
            if (scrollers.some((scroller) => scroller !== one && scroller.contains(one))) return false
            const box = one.parentElement?.closest('.card, .items > li, body') ?? document.body
            const { width, right } = one.getBoundingClientRect()
            return width > 1 && right > Math.min(box.getBoundingClientRect().right, window.innerWidth) + 0.5
          })
          .map((one) => `${one.tagName} ${one.className} ${one.textContent?.trim().slice(0, 60)}`)
      })

    const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

    it('makes a token for a task, which works, and revokes it', async () => {
      const { repository, page } = await aVisitor()
      await page.goto('/settings/tokens')
      await page.getByRole('link', { name: 'New token' }).click()
      await page.getByLabel('Name', { exact: true }).fill('build server')
      await page.getByRole('radio', { name: 'Publish packages' }).check()
      await page.getByLabel('Only the repositories you choose').check()
      await page.getByLabel(repository.path).check()
      await press(page, 'Create token')
      const token = await page.getByLabel('The token').textContent()
      const authorization = `Basic ${Buffer.from(`svc:${token}`).toString('base64')}`
      const root = `${baseURL}/${repository.path}/-/packages/packages.json`
      expect((await fetch(root, { headers: { authorization } })).status).toBe(200)

      await page.getByRole('link', { name: 'Done, I have copied it' }).click()
      await page.getByLabel('Actions for build server').click()
      await page.getByRole('link', { name: 'Revoke build server' }).click()
      await press(page, 'Revoke')
      await page.getByText('The token build server was revoked').waitFor()
      expect((await fetch(root, { headers: { authorization } })).status).toBe(401)
    })

    it.each([true, false])(
      'goes on with a form after the confirmation, with scripts: %s',
      async (hasScripts) => {
        const { account, page } = await aVisitor(hasScripts)
        await page.setViewportSize({ width: 375, height: 740 })
        await page.goto('/settings/tokens/new')
        await page.getByLabel('Name', { exact: true }).fill('after a while')
        await setProofAge(t.db, account, '16 minutes')
        await press(page, 'Create token')
        await page.getByText('What you filled in is kept').waitFor()
        expect(await overflowing(page)).toEqual([])
        await page.getByLabel('Your password').fill(password)
        await press(page, 'Confirm')
        if (!hasScripts) await press(page, 'Continue')
        await page.getByLabel('The token').waitFor()
        if (hasScripts) {
          await page.goBack()
          expect(new URL(page.url()).pathname).not.toBe('/settings/confirm-access/continue')
        }
      },
    )

    it('changes the password and stays signed in', async () => {
      const { page } = await aVisitor()
      await page.goto('/settings/tokens')
      await page.getByRole('navigation', { name: 'Settings' }).getByRole('link', { name: 'Account' }).click()
      await page.getByRole('link', { name: 'Change password' }).click()
      await page.getByLabel('Current password').fill(password)
      await page.getByLabel('New password', { exact: true }).fill('another long password')
      await page.getByLabel('New password again').fill('another long password')
      await press(page, 'Change password')
      await page.getByText('Your password was changed').waitFor()
      await page.locator('summary', { hasText: 'Menu of' }).click()
      await press(page, 'Sign out')
      await page.getByRole('link', { name: 'Sign in' }).waitFor()
    })

    it('fits screens of every width, page by page', async () => {
      const { account, repository, page } = await aVisitor()
      const { push } = await aPublisher(t, { repository })
      const require = {
        php: '~8.1.0 || ~8.2.0 || ~8.3.0 || ~8.4.0 || ~8.5.0 || >=8.6.0,<9.999 || dev-main#aaaaaaaaaaaaaaaaaaaa',
        'symfony/dependency-injection': '^5.4.0 || ^6.4.0 || ^7.0.0 || ^8.0.0',
      }
      const long = `1.0.0-alpha.1+build.20261121.${'5114f85.'.repeat(8)}end`
      for (const version of ['0.9.0', long]) await push(version, { manifest: { require } })
      const application = await anApplication(t.db, { scopes: [...allScopes] })
      await anAuthorization(t.db, account, application)
      const ask = new URLSearchParams({
        response_type: 'code',
        client_id: application.clientId,
        prompt: 'consent',
      })
      const paths = [
        ...[
          '/',
          '/settings/tokens',
          '/settings/tokens/new',
          '/settings/account',
          '/settings/account/password',
          '/settings/sessions',
          '/settings/security',
          '/settings/authorizations',
          '/no/where',
        ],
        `/${repository.path}`,
        `/${repository.path}/packages/acme/lib?version=${encodeURIComponent(long)}`,
        `/oauth2/auth?${ask}`,
      ]
      for (const path of paths) {
        await page.goto(path)
        for (const width of [320, 375, 1280]) {
          await page.setViewportSize({ width, height: 740 })
          expect(await overflowing(page), `${path} at ${width} px`).toEqual([])
        }
      }
    })
  },
)
