import { readFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { pipeline } from 'node:stream'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listEvents } from '../../src/events/event-list.ts'
import { forgetPasskeyKind, removePassword, setProofAge } from '../support/account-rows.ts'
import { type AccountActor, anAccount, password, signIn } from '../support/actors.ts'
import { authorizeLink } from '../support/browse.ts'
import { giveCookies, hasBrowser, useBrowser } from '../support/browser.ts'
import { useListeningApp } from '../support/listening.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { readIdToken } from '../support/openid-actors.ts'
import { connectDevice, type DeviceAbilities, storePasskey } from '../support/passkey-devices.ts'
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
  // Cookies know no ports, so a session of AUTH_URL is one of BASE_URL.
  const forwarded = new Set<Socket>()
  const forwarder = createServer((socket) => {
    forwarded.add(socket)
    const onwards = connect(port, '127.0.0.1')
    pipeline(socket, onwards, socket, () => forwarded.delete(socket))
  })
  beforeAll(() => new Promise<void>((resolve) => forwarder.listen(authPort, '127.0.0.1', resolve)))
  afterAll(async () => {
    const closed = new Promise((resolve) => forwarder.close(resolve))
    // The browser and the application keep their connections for a minute.
    for (const socket of forwarded) socket.destroy()
    await closed
  })

  /** A browser with a device that has passkeys. */
  async function aDevice(abilities: DeviceAbilities = {}) {
    const page = await browser.newPage({ baseURL })
    const cdp = await page.context().newCDPSession(page)
    await cdp.send('WebAuthn.enable')
    const authenticatorId = await connectDevice(cdp, abilities)
    /** Makes the device wait, like a person who has not touched it, until it is called with false. */
    const wait = async (isWaiting: boolean) =>
      cdp.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled: !isWaiting })
    return { page, cdp, authenticatorId, wait }
  }

  const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

  /** Waits for a page that is shown to this person. */
  const isSignedIn = (page: Page, { username }: AccountActor) =>
    page.locator('summary', { hasText: `Menu of ${username}` }).waitFor()

  async function givePassword(page: Page, { username }: AccountActor) {
    await page.goto('/login')
    await page.getByLabel('Username or email').fill(username)
    await page.getByLabel('Password').fill(password)
    await press(page, 'Sign in')
  }

  /** A person who has signed in with this browser. */
  async function aSignedInPerson(page: Page) {
    const account = await anAccount(t.db)
    await giveCookies(page.context(), baseURL, await signIn(t.app, account))
    return account
  }

  async function addPasskey(page: Page, name: string) {
    await page.goto('/settings/second-factor/passkeys/new')
    await page.getByLabel('Name').fill(name)
    await press(page, 'Add a passkey')
  }

  /** A browser with a device, and a person with a passkey on it who is not signed in. */
  async function aPersonWithPasskey(abilities: DeviceAbilities = {}) {
    const device = await aDevice(abilities)
    const account = await anAccount(t.db)
    await storePasskey(t, device, account, abilities.isUserVerified ?? true)
    return { ...device, account }
  }

  /** Like `aPersonWithPasskey`, but with a passkey that they have added on the pages. */
  async function aPersonWhoAddedOne(abilities: DeviceAbilities = {}) {
    const device = await aDevice(abilities)
    const account = await aSignedInPerson(device.page)
    await addPasskey(device.page, 'Laptop')
    await device.page.getByRole('heading', { name: 'Your recovery codes' }).waitFor()
    await device.page.context().clearCookies()
    return { ...device, account }
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
    const { page, wait, account } = await aPersonWhoAddedOne()
    const { clientId } = await anApplication(t.db)
    await wait(true)
    await page.goto(authorizeLink({ clientId }, { state: 'x'.repeat(3000) }))
    await page.getByRole('link', { name: 'Sign in with a passkey' }).click()
    await page.getByRole('button', { name: 'Use a passkey' }).waitFor()
    await wait(false)
    await press(page, 'Use a passkey')
    await page.waitForURL('**/oauth2/auth?**')
    await page.getByRole('button', { name: 'Authorize' }).waitFor()
    expect(await page.getByText('Signed in as').textContent()).toContain(account.username)
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
    const { page, wait, account } = await aPersonWithPasskey()
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
    await isSignedIn(page, account)
    await open()
    expect(await read()).toEqual({ acr: 'phr', amr: new Set(['pwd', 'pop', 'mfa']) })

    await setProofAges(t.db, '1 hour')
    await open({ prompt: 'login' })
    await press(page, 'Use a passkey')
    expect(await read()).toEqual({ acr: 'phr', amr: new Set(['pop', 'mfa']) })
  })

  it('are one factor in the ID token when their device did not check the person (OPENID 251)', async () => {
    const { page, account } = await aPersonWithPasskey({ hasUserVerification: false, isUserVerified: false })
    const { open, read } = await aRelyingApplication(page, account)
    await givePassword(page, account)
    await page.getByRole('link', { name: 'Use a passkey' }).click()
    await press(page, 'Use a passkey')
    await isSignedIn(page, account)
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
    const { page, account } = await aPersonWithPasskey()
    const violations: string[] = []
    page.on('console', (message) => {
      if (/Content Security Policy/.test(message.text())) violations.push(message.text())
    })
    // The browser of this test chooses the only passkey as soon as the page offers it.
    await page.goto(`${url}/login`)
    await page.waitForURL(`${url}/`)
    await isSignedIn(page, account)
    expect(await lastProof(account.id)).toEqual({ method: 'passkey', second: undefined })
    expect(violations).toEqual([])
  })

  it('are added with the recovery codes, which are shown once, and later with a notice', async () => {
    const { page, cdp, authenticatorId } = await aDevice()
    await aSignedInPerson(page)
    await addPasskey(page, 'Laptop')
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

    await cdp.send('WebAuthn.removeVirtualAuthenticator', { authenticatorId })
    await connectDevice(cdp)
    await addPasskey(page, 'Tablet')
    await page.getByRole('status').filter({ hasText: 'The passkey “Tablet” was added.' }).waitFor()
    await page.reload()
    await page.getByRole('rowheader', { name: 'Tablet' }).waitFor()
    expect(await page.getByRole('status').count()).toBe(0)
  })

  it('are the second step after a password, and confirm a sensitive act', async () => {
    const { page, wait, account } = await aPersonWithPasskey()
    await wait(true)
    await givePassword(page, account)
    await page.getByRole('link', { name: 'Use a passkey' }).click()
    await wait(false)
    await page.getByText(`Signing in as ${account.username}, with a passkey`).waitFor()
    await press(page, 'Use a passkey')
    await isSignedIn(page, account)
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
    const { page, account } = await aPersonWhoAddedOne(device)
    expect(await canSignIn(account.id)).toEqual([false])
    await page.goto('/login/passkey')
    await press(page, 'Use a passkey')
    await page.getByText('No passkey was used').waitFor()
    await givePassword(page, account)
    await page.getByRole('link', { name: 'Use a passkey' }).click()
    await press(page, 'Use a passkey')
    await isSignedIn(page, account)
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
    const { page, account } = await aPersonWhoAddedOne()
    expect(await canSignIn(account.id)).toEqual([true])
    // A passkey that an older release added.
    for (const { id } of await listStoredPasskeys(t.db, account)) await forgetPasskeyKind(t.db, id)
    await removePassword(t.db, account)
    await page.goto('/login/passkey')
    await press(page, 'Use a passkey')
    await isSignedIn(page, account)
    expect(await canSignIn(account.id)).toEqual([true])
    await page.goto('/settings/second-factor')
    await page.getByLabel('Actions for Laptop').click()
    await page.getByRole('link', { name: 'Remove Laptop' }).click()
    await press(page, 'Remove')
    await page.getByText('This passkey is your only way to sign in').waitFor()
  })

  it('do not replace the password when the device did not check the person', async () => {
    const { page, cdp, authenticatorId } = await aPersonWithPasskey()
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
    const { page, account } = await aPersonWithPasskey()
    await setSignCount(t.db, account, 1000)
    await page.goto('/login/passkey')
    await press(page, 'Use a passkey')
    await page.getByText('This passkey was not accepted').waitFor()
  })

  it('sign a challenge that works once, in one browser', async () => {
    const { page } = await aPersonWithPasskey()
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
