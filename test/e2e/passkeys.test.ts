import { readFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { pipeline } from 'node:stream'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { renewRecoveryCodes } from '../../src/accounts/second-factor/recovery-codes.ts'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { forgetPasskeyKind, removePassword, setProofAge } from '../support/account-rows.ts'
import { type AccountActor, anAccount, password } from '../support/actors.ts'
import { authorizeLink } from '../support/browse.ts'
import { hasBrowser, useBrowser } from '../support/browser.ts'
import { useListeningApp } from '../support/listening.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { readIdToken } from '../support/openid-actors.ts'
import { freePort } from '../support/program.ts'
import { countRows } from '../support/rows.ts'
import { listStoredPasskeys, setProofAges, setSignCount } from '../support/session-rows.ts'
import { useThirdPartyApp } from '../support/third-party-app.ts'

const port = await freePort()
// Browsers allow passkeys for names, not for IP addresses.
const baseURL = `http://localhost:${port}`
const authPort = await freePort()
const authURL = `http://localhost:${authPort}`
const appPort = await freePort()

describe.skipIf(!hasBrowser)('passkeys in Chromium (chromium is needed)', () => {
  const t = useListeningApp(port, { BASE_URL: baseURL, AUTH_URL: authURL })
  const browser = useBrowser()
  const application = useThirdPartyApp(appPort, authURL)
  const pages: Page[] = []
  // Cookies know no ports, so a session of AUTH_URL is one of BASE_URL.
  const forwarder = createServer((socket) => {
    const onwards = connect(port, '127.0.0.1')
    pipeline(socket, onwards, socket, () => {})
  })
  beforeAll(() => new Promise<void>((resolve) => forwarder.listen(authPort, '127.0.0.1', resolve)))
  afterAll(() => new Promise((resolve) => forwarder.close(resolve)))
  afterEach(async () => {
    for (const page of pages.splice(0)) await page.context().close()
  })

  /** A browser with an authenticator. Its device has verified the person, unless `isUserVerified` is false. */
  async function aDevice({ isUserVerified = true, hasResidentKey = true, hasUserVerification = true } = {}) {
    const page = await browser.newPage({ baseURL })
    pages.push(page)
    const cdp = await page.context().newCDPSession(page)
    await cdp.send('WebAuthn.enable')
    const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey,
        hasUserVerification,
        isUserVerified,
        automaticPresenceSimulation: true,
      },
    })
    /** Makes the device wait, like a person who has not touched it, until it is called with false. */
    const wait = async (isWaiting: boolean) =>
      cdp.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled: !isWaiting })
    return { page, cdp, authenticatorId, wait }
  }

  const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

  const menuOf = (page: Page) => page.locator('summary', { hasText: 'Menu of' })

  async function givePassword(page: Page, { username }: AccountActor, url = '/login') {
    await page.goto(url)
    await page.getByLabel('Username or email').fill(username)
    await page.getByLabel('Password').fill(password)
    await press(page, 'Sign in')
  }

  /** A person who has added a passkey in this browser, and signed out. */
  async function aPersonWithPasskey(page: Page) {
    const account = await anAccount(t.db)
    await givePassword(page, account)
    await page.goto('/settings/second-factor/passkeys/new')
    await page.getByLabel('Name').fill('Laptop')
    await press(page, 'Add a passkey')
    await page.getByRole('heading', { name: 'Your recovery codes' }).waitFor()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download' }).click(),
    ])
    expect(download.suggestedFilename()).toBe('svc-recovery-codes.txt')
    const shown = await page.getByLabel('The recovery codes').textContent()
    expect(await readFile(await download.path(), 'utf8')).toContain(`\n${shown?.trim()}\n`)
    await page.getByRole('link', { name: 'Done, I have copied them' }).click()
    await page.getByRole('rowheader', { name: 'Laptop' }).waitFor()
    await menuOf(page).click()
    await press(page, 'Sign out')
    await page.getByRole('link', { name: 'Sign in' }).waitFor()
    return account
  }

  const username = async (page: Page) => {
    await page.goto('/settings/account/sign-in')
    return page.getByLabel('Username', { exact: true }).inputValue()
  }
  const actionsOf = async (accountId: string) =>
    (await listEvents(t.db, { subjectId: accountId }, { after: null, limit: 50 })).map(({ action }) => action)

  /** How the last sign-in proved the person. */
  const lastProof = async (accountId: string) => {
    const [event] = await listEvents(
      t.db,
      { subjectId: accountId, actions: ['sign-in'] },
      { after: null, limit: 1 },
    )
    return { method: event?.details['method'], second: event?.details['second_factor'] }
  }

  it('sign in without a password, and on to the application', async () => {
    const { page, wait } = await aDevice()
    const account = await aPersonWithPasskey(page)
    const { clientId } = await anApplication(t.db)
    await wait(true)
    await page.goto(authorizeLink({ clientId }, { state: 'x'.repeat(3000) }))
    await page.getByRole('link', { name: 'Sign in with a passkey' }).click()
    await page.getByRole('button', { name: 'Use a passkey' }).waitFor()
    await wait(false)
    await press(page, 'Use a passkey')
    await page.waitForURL('**/oauth2/auth?**')
    await page.getByRole('button', { name: 'Authorize' }).waitFor()
    expect(await username(page)).toBe(account.username)
    const [passkey] = await listStoredPasskeys(t.db, account)
    expect(passkey?.signCount).toBeGreaterThan(0)
    expect(passkey?.lastUsedAt).toBeInstanceOf(Date)
    expect(await actionsOf(account.id)).toContain('second-factor-added')
    expect(await lastProof(account.id)).toEqual({ method: 'passkey', second: undefined })
  })

  /** An application that signs this person in. `read` waits until the browser is back there, and returns what the ID token tells. */
  async function aRelyingApplication(page: Page, account: AccountActor) {
    const { redirectUri } = application
    const { clientId, clientSecret } = await anApplication(t.db, { scopes: ['openid'], redirectUri })
    return {
      open: async (parameters = {}) => {
        await page.goto(await application.begin(clientId, { scope: 'openid', ...parameters }))
      },
      read: async () => {
        await page.getByText('Back at the application').waitFor()
        const { id_token } = await application.finish(clientId, clientSecret)
        const { sub, acr, amr } = await readIdToken(t, { clientId }, id_token)
        expect(sub).toBe(account.id)
        return { acr, amr: new Set(amr as string[]) }
      },
    }
  }

  it('tell an application in its ID token that nobody can phish the sign-in (OPENID 251)', async () => {
    const { page, wait } = await aDevice()
    const account = await aPersonWithPasskey(page)
    const { open, read } = await aRelyingApplication(page, account)
    // The browser of this test chooses the only passkey as soon as the page offers it.
    await open({ acr_values: 'phr' })
    await press(page, 'Authorize')
    expect(await read()).toEqual({ acr: 'phr', amr: new Set(['pop', 'mfa']) })

    await page.context().clearCookies()
    await wait(true)
    await givePassword(page, account)
    await page.getByRole('link', { name: 'Use a passkey' }).click()
    await wait(false)
    await press(page, 'Use a passkey')
    await menuOf(page).waitFor()
    await open()
    expect(await read()).toEqual({ acr: 'phr', amr: new Set(['pwd', 'pop', 'mfa']) })

    await setProofAges(t.db, '1 hour')
    await open({ prompt: 'login' })
    await press(page, 'Use a passkey')
    expect(await read()).toEqual({ acr: 'phr', amr: new Set(['pop', 'mfa']) })
  })

  it('are one factor in the ID token when their device did not check the person (OPENID 251)', async () => {
    const { page } = await aDevice({ hasUserVerification: false, isUserVerified: false })
    const account = await aPersonWithPasskey(page)
    const { open, read } = await aRelyingApplication(page, account)
    await givePassword(page, account)
    await page.getByRole('link', { name: 'Use a passkey' }).click()
    await press(page, 'Use a passkey')
    await menuOf(page).waitFor()
    await open()
    await press(page, 'Authorize')
    expect(await read()).toEqual({ acr: 'phr', amr: new Set(['pwd', 'pop', 'mfa']) })

    await setProofAges(t.db, '1 hour')
    await open({ prompt: 'login' })
    await press(page, 'Use a passkey')
    expect(await read()).toEqual({ acr: 'phr', amr: new Set(['pop']) })
  })

  it.each([
    ['BASE_URL', baseURL],
    ['AUTH_URL, which has another port', authURL],
  ])('are offered in the field of the username at %s, and sign in when chosen there', async (_where, url) => {
    const { page } = await aDevice()
    const account = await aPersonWithPasskey(page)
    const violations: string[] = []
    page.on('console', (message) => {
      if (/Content Security Policy/.test(message.text())) violations.push(message.text())
    })
    // The browser of this test chooses the only passkey as soon as the page offers it.
    await page.goto(`${url}/login`)
    await page.waitForURL(`${url}/`)
    expect(await username(page)).toBe(account.username)
    expect(await lastProof(account.id)).toEqual({ method: 'passkey', second: undefined })
    expect(violations).toEqual([])
  })

  it('are added with a notice, or with the recovery codes that are shown once', async () => {
    const { page } = await aDevice()
    const account = await anAccount(t.db)
    await transaction(t.db, (tx) => renewRecoveryCodes(tx, operator, account.id), operator)
    await givePassword(page, account)
    await page.goto('/settings/second-factor/passkeys/new')
    await page.getByLabel('Name').fill('Laptop')
    await press(page, 'Add a passkey')
    await page.getByRole('status').filter({ hasText: 'The passkey “Laptop” was added.' }).waitFor()
    await page.reload()
    await page.getByRole('rowheader', { name: 'Laptop' }).waitFor()
    expect(await page.getByRole('status').count()).toBe(0)
  })

  it('are the second step after a password, and confirm a sensitive act', async () => {
    const { page, wait } = await aDevice({ isUserVerified: true })
    const account = await aPersonWithPasskey(page)
    await wait(true)
    await givePassword(page, account)
    await page.getByRole('link', { name: 'Use a passkey' }).click()
    await wait(false)
    await page.getByText(`Signing in as ${account.username}, with a passkey`).waitFor()
    await press(page, 'Use a passkey')
    await menuOf(page).waitFor()
    expect(await username(page)).toBe(account.username)
    expect(await lastProof(account.id)).toEqual({ method: 'password', second: 'passkey' })

    await setProofAge(t.db, account, '1 hour')
    await page.goto('/settings/second-factor')
    await page.getByLabel('Actions for Laptop').click()
    await page.getByRole('link', { name: 'Remove Laptop' }).click()
    await press(page, 'Remove')
    await page.getByText('What you filled in is kept for 15 minutes').waitFor()
    await press(page, 'Use a passkey')
    // The form goes on by itself.
    await page.getByText('The passkey was removed').waitFor()
    expect(await countRows(t.db, 'recovery_code', { accountId: account.id })).toBe(0)
  })

  const canSignIn = async (accountId: string) =>
    (await listStoredPasskeys(t.db, { id: accountId })).map((passkey) => passkey.canSignIn)

  it.each([
    ['keeps no account', { hasResidentKey: false }],
    ['does not verify the person', { hasUserVerification: false, isUserVerified: false }],
  ])('are only a second factor on a device that %s', async (_what, device) => {
    const { page } = await aDevice(device)
    const account = await aPersonWithPasskey(page)
    expect(await canSignIn(account.id)).toEqual([false])
    await page.goto('/login/passkey')
    await press(page, 'Use a passkey')
    await page.getByText('No passkey was used').waitFor()
    await givePassword(page, account)
    await page.getByRole('link', { name: 'Use a passkey' }).click()
    await press(page, 'Use a passkey')
    await menuOf(page).waitFor()
    expect(await canSignIn(account.id)).toEqual([false])
    await page.goto('/settings/second-factor')
    await page.getByText('Only a second factor: it cannot replace the password.').waitFor()
    // It can be removed, because it is no way to sign in.
    await removePassword(t.db, account)
    await page.getByLabel('Actions for Laptop').click()
    await page.getByRole('link', { name: 'Remove Laptop' }).click()
    await press(page, 'Remove')
    await page.getByText('The passkey was removed').waitFor()
  })

  it('stay as the only way to sign in, also those of which this is known only after a sign-in', async () => {
    const { page } = await aDevice()
    const account = await aPersonWithPasskey(page)
    expect(await canSignIn(account.id)).toEqual([true])
    // A passkey that an older release added.
    for (const { id } of await listStoredPasskeys(t.db, account)) await forgetPasskeyKind(t.db, id)
    await removePassword(t.db, account)
    await page.goto('/login/passkey')
    await press(page, 'Use a passkey')
    await menuOf(page).waitFor()
    expect(await canSignIn(account.id)).toEqual([true])
    await page.goto('/settings/second-factor')
    await page.getByLabel('Actions for Laptop').click()
    await page.getByRole('link', { name: 'Remove Laptop' }).click()
    await press(page, 'Remove')
    await page.getByText('This passkey is your only way to sign in').waitFor()
  })

  it('do not replace the password when the device did not check the person', async () => {
    const { page, cdp, authenticatorId } = await aDevice()
    await aPersonWithPasskey(page)
    // The browser itself refuses, and the page shows this.
    await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false })
    await page.goto('/login/passkey')
    await press(page, 'Use a passkey')
    await page.getByText('No passkey was used').waitFor()
    // The server rejects a response without user verification, which another program could send.
    await relax(page, { userVerification: 'discouraged' })
    await press(page, 'Use a passkey')
    await page.getByText('This passkey was not accepted').waitFor()
  })

  it('are refused when their counter does not grow: a copy, or a response that is sent again', async () => {
    const { page } = await aDevice()
    const account = await aPersonWithPasskey(page)
    await setSignCount(t.db, account, 1000)
    await page.goto('/login/passkey')
    await press(page, 'Use a passkey')
    await page.getByText('This passkey was not accepted').waitFor()
  })

  it('sign a challenge that works once, in one browser', async () => {
    const { page } = await aDevice()
    await aPersonWithPasskey(page)
    const use = async () => {
      await page.goto('/login/passkey')
      return holdBack(page)
    }
    const replayed = await use()
    expect(await replayed.send()).toBe(303)
    expect(await replayed.send()).toBe(403)
    await page.context().clearCookies()

    const moved = await use()
    const other = await aDevice()
    await other.page.goto('/login/passkey')
    expect(await moved.send(other.page)).toBe(403)
  })

  /** Changes the options that the page gives to the browser. */
  const relax = (page: Page, changes: object) =>
    page.locator('form[data-passkey]').evaluate((form, more) => {
      const options = JSON.parse(form.getAttribute('data-options') ?? '')
      form.setAttribute('data-options', JSON.stringify({ ...options, ...more }))
    }, changes)

  /** Uses the passkey on the page without sending the form. `send` then sends it, from this page or another one. */
  async function holdBack(page: Page) {
    await page.evaluate(() => {
      HTMLFormElement.prototype.submit = function hold() {
        this.setAttribute('data-held', '')
      }
    })
    await press(page, 'Use a passkey')
    await page.locator('form[data-held]').waitFor({ state: 'attached' })
    const credential = await page.locator('input[name="credential"]').inputValue()
    return {
      send: async (from = page) => {
        const csrf = await from.locator('form[data-passkey] input[name="csrf_token"]').inputValue()
        const form = { csrf_token: csrf, return: '', credential }
        const headers = { origin: baseURL }
        const response = await from.request.post('/login/passkey', { form, headers, maxRedirects: 0 })
        return response.status()
      },
    }
  }
})
