import type { BrowserContextOptions, Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { aMember, anAccount, aRepository, password, signIn } from '../support/actors.ts'
import { giveCookies, hasBrowser, useBrowser } from '../support/browser.ts'
import { useListeningApp } from '../support/listening.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { freePort } from '../support/program.ts'
import { useThirdPartyApp } from '../support/third-party-app.ts'

const [port, applicationPort] = [await freePort(), await freePort()]
const baseURL = `http://127.0.0.1:${port}`

describe.skipIf(!hasBrowser)('authorizing an application in Chromium (chromium is needed)', () => {
  const t = useListeningApp(port)
  const browser = useBrowser()
  const thirdParty = useThirdPartyApp(applicationPort, baseURL)

  /** A person with an account and a browser, whom an application sends to svc. They sign in there. */
  async function aVisit(
    differences: Parameters<typeof anApplication>[1] = {},
    options: BrowserContextOptions = {},
  ) {
    const account = await anAccount(t.db, { displayName: 'Ann Example' })
    const application = await anApplication(t.db, { redirectUri: thirdParty.redirectUri, ...differences })
    const page = await browser.newPage({ baseURL, ...options })
    const visit = async (parameters: Record<string, string> = {}) =>
      void (await page.goto(await thirdParty.begin(application.clientId, parameters)))
    const { clientId, clientSecret } = application
    return { account, application, page, visit, keys: [clientId, clientSecret] as const }
  }

  /** Like `aVisit`, but the browser is signed in already. */
  async function aSignedInVisit(...about: Parameters<typeof aVisit>) {
    const visit = await aVisit(...about)
    await giveCookies(visit.page.context(), baseURL, await signIn(t.app, visit.account))
    return visit
  }

  async function sendPassword(page: Page, { username }: { username: string }) {
    await page.getByLabel('Username or email').fill(username)
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Sign in' }).click()
  }

  const press = (page: Page, name: string) => page.getByRole('button', { name }).click()
  const arrive = (page: Page) => page.getByText('Back at the application').waitFor()

  async function works(accessToken: string): Promise<boolean> {
    const headers = { authorization: `Bearer ${accessToken}` }
    return (await fetch(`${baseURL}/api/user`, { headers })).status === 200
  }

  it('signs in, approves, and the application exchanges, refreshes and revokes', async () => {
    const { account, page, visit, keys } = await aVisit()
    await visit()
    await sendPassword(page, account)
    await page.getByRole('heading', { name: 'Authorize Package Mirror?' }).waitFor()
    expect(await page.getByText('Signed in as').textContent()).toContain(account.username)
    await press(page, 'Authorize')
    await arrive(page)

    const first = await thirdParty.finish(...keys)
    expect(first).toMatchObject({ token_type: 'bearer', expires_in: 28_800 })
    expect(await works(first.access_token)).toBe(true)
    const second = await thirdParty.refresh(...keys, String(first.refresh_token))
    expect(await works(second.access_token)).toBe(true)
    await thirdParty.revoke(...keys, String(second.refresh_token))
    expect(await works(second.access_token)).toBe(false)
  })

  for (const javaScriptEnabled of [true, false]) {
    it(`shows invisible characters in the name of an application, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async () => {
      const hidden = { name: 'Mir\u200bror', description: 'Reads\u2060 packages' }
      const { page, visit } = await aSignedInVisit(hidden, { javaScriptEnabled })
      await visit()
      await page.getByRole('heading', { name: 'Authorize Mir[U+200B]ror?' }).waitFor()
      await page.getByText('Reads[U+2060] packages').waitFor()
      expect(await page.title()).toBe('Authorize Mir[U+200B]ror · svc')
      // The page leads to the application, so its policy allows no script.
      expect(await page.locator('script').count()).toBe(0)
      await press(page, 'Authorize')
      await arrive(page)
      await page.goto('/settings/authorizations')
      await page.getByRole('link', { name: 'Withdraw' }).click()
      await page.getByRole('heading', { name: 'Withdraw the authorization of Mir[U+200B]ror?' }).waitFor()
      await press(page, 'Withdraw')
      await page.getByText('The authorization of Mir[U+200B]ror is withdrawn.').waitFor()
    })
  }

  it('denies, and the application gets the error', async () => {
    const { page, visit, keys } = await aSignedInVisit()
    await visit()
    await press(page, 'Deny')
    await arrive(page)
    await expect(thirdParty.finish(...keys)).rejects.toMatchObject({ error: 'access_denied' })
  })

  it('chooses repositories, with a search that keeps the ticked ones', async () => {
    const { account, page, visit, keys } = await aSignedInVisit({ resourceScope: 'specified' })
    const [one, two] = [await aRepository(t.db), await aRepository(t.db)]
    for (const repository of [one, two]) await aMember(t.db, account, repository, 'developer')
    await visit()
    await press(page, 'Authorize')
    expect(await page.getByRole('alert').textContent()).toContain('Choose at least one repository.')
    await page.getByRole('checkbox', { name: one.path }).check()
    await page.getByLabel('Search your repositories').fill(two.path)
    await page.keyboard.press('Enter')
    await page.getByRole('checkbox', { name: two.path }).waitFor()
    expect(await page.getByRole('checkbox', { name: one.path }).isChecked()).toBe(true)
    await press(page, 'Authorize')
    await arrive(page)
    await thirdParty.finish(...keys)

    await page.goto('/settings/authorizations')
    const facts = (await page.locator('dl').allTextContents()).join()
    expect(facts).toContain(one.path)
    expect(facts).not.toContain(two.path)
  })

  it('withdraws, and the tokens stop working', async () => {
    const { page, visit, keys } = await aSignedInVisit()
    await visit()
    await press(page, 'Authorize')
    await arrive(page)
    const { access_token, refresh_token } = await thirdParty.finish(...keys)
    await page.goto('/settings/authorizations')
    await page.getByRole('link', { name: 'Withdraw Package Mirror' }).click()
    await press(page, 'Withdraw')
    expect(await page.getByRole('status').textContent()).toContain('Package Mirror is withdrawn')
    expect(await works(access_token)).toBe(false)
    await expect(thirdParty.refresh(...keys, String(refresh_token))).rejects.toMatchObject({
      error: 'invalid_grant',
    })
  })

  it('does not ask twice, but lets someone else sign in when the application asks again', async () => {
    const { page, visit, keys } = await aSignedInVisit()
    const other = await anAccount(t.db)
    await visit()
    await press(page, 'Authorize')
    await arrive(page)
    await thirdParty.finish(...keys)
    await visit()
    await arrive(page)
    await thirdParty.finish(...keys)

    await visit({ prompt: 'consent' })
    await press(page, 'Not you?')
    await sendPassword(page, other)
    expect(await page.getByText('Signed in as').textContent()).toContain(other.username)
  })

  it('runs in a popup window, which can still report the result to the application', async () => {
    const { account, application, page, keys } = await aVisit()
    await page.goto(thirdParty.redirectUri)
    const link = await thirdParty.begin(application.clientId)
    const [popup] = await Promise.all([
      page.waitForEvent('popup'),
      page.evaluate((url) => void open(url), link),
    ])
    await sendPassword(popup, account)
    await press(popup, 'Authorize')
    await arrive(popup)
    expect(await popup.evaluate(() => opener !== null)).toBe(true)
    expect(await thirdParty.finish(...keys)).toHaveProperty('access_token')
  })

  it('works with the keyboard alone, at a phone’s width and without JavaScript', async () => {
    const options = { viewport: { width: 360, height: 640 }, javaScriptEnabled: false }
    const { account, page, visit, keys } = await aVisit({}, options)
    await visit()
    await page.locator('#username:focus').waitFor()
    await page.keyboard.type(account.username)
    await page.keyboard.press('Tab')
    await page.keyboard.type(password)
    await page.keyboard.press('Enter')
    const authorize = page.getByRole('button', { name: 'Authorize' })
    await authorize.waitFor()
    const box = await authorize.boundingBox()
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(360)
    for (let presses = 0; presses < 20; presses++) {
      await page.keyboard.press('Tab')
      if (await page.locator('button[value=approve]:focus').count()) break
    }
    await page.keyboard.press('Enter')
    await arrive(page)
    expect(await thirdParty.finish(...keys)).toHaveProperty('access_token')
  })
})
