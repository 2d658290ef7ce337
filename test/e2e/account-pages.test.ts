import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { aMember, anAccount, aRepository, password } from '../support/actors.ts'
import { hasBrowser, useBrowser } from '../support/browser.ts'
import { freePort, useListeningApp } from '../support/listening.ts'

const port = await freePort()
const baseURL = `http://127.0.0.1:${port}`

describe.skipIf(!hasBrowser)(
  'the pages of an account in Chromium, without JavaScript (chromium is needed)',
  () => {
    const t = useListeningApp(port)
    const browser = useBrowser()

    /** Somebody who has just signed in, on a phone. */
    async function aVisitor() {
      const account = await anAccount(t.db)
      const repository = await aRepository(t.db)
      await aMember(t.db, account, repository, 'developer')
      const viewport = { width: 360, height: 740 }
      const page = await browser.newPage({ baseURL, viewport, javaScriptEnabled: false })
      await page.goto('/settings/tokens')
      await page.getByLabel('Username or email').fill(account.username)
      await page.getByLabel('Password').fill(password)
      await press(page, 'Sign in')
      return { repository, page }
    }

    const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

    it('makes a token for a task, which works, and revokes it', async () => {
      const { repository, page } = await aVisitor()
      await page.getByRole('link', { name: 'Publish packages' }).click()
      await page.getByLabel('Only the repositories you choose').check()
      await page.getByLabel(repository.path).check()
      await press(page, 'Make the token')
      const token = await page.getByLabel('The token').textContent()
      const authorization = `Basic ${Buffer.from(`svc:${token}`).toString('base64')}`
      const root = `${baseURL}/${repository.path}/-/packages/packages.json`
      expect((await fetch(root, { headers: { authorization } })).status).toBe(200)

      await page.getByRole('link', { name: 'Done, I have copied it' }).click()
      await press(page, 'Revoke Publish packages')
      await page.getByText('The token was revoked').waitFor()
      expect((await fetch(root, { headers: { authorization } })).status).toBe(401)
    })

    it('changes the password and stays signed in', async () => {
      const { page } = await aVisitor()
      await page.getByRole('link', { name: 'Account', exact: true }).click()
      await page.getByLabel('Current password').fill(password)
      await page.getByLabel('New password', { exact: true }).fill('another long password')
      await page.getByLabel('New password again').fill('another long password')
      await press(page, 'Change the password')
      await page.getByText('Your password was changed').waitFor()
      await press(page, 'Sign out')
      await page.getByRole('link', { name: 'Sign in' }).waitFor()
    })

    it('fits a phone, page by page', async () => {
      const { repository, page } = await aVisitor()
      for (const path of ['/', '/settings/tokens', '/settings/account', `/${repository.path}`, '/no/where']) {
        await page.goto(path)
        const { width } = (await page.locator('html').boundingBox()) ?? { width: 0 }
        const widest = await page
          .locator('main, header.top')
          .evaluateAll((all) => Math.max(...all.map((one) => one.scrollWidth)))
        expect(Math.max(width, widest), path).toBeLessThanOrEqual(360)
      }
    })
  },
)
