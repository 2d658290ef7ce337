import { describe, expect, it } from 'vitest'
import { storedAccount } from '../support/account-rows.ts'
import { anAccount, password } from '../support/actors.ts'
import { hasBrowser, useBrowser } from '../support/browser.ts'
import { useIdentityProvider } from '../support/identity-provider.ts'
import { useListeningApp } from '../support/listening.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { freePort } from '../support/program.ts'
import { countRecentProofs, setProofAges } from '../support/session-rows.ts'
import { useThirdPartyApp } from '../support/third-party-app.ts'

const [svcPort, appPort, acmePort] = [await freePort(), await freePort(), await freePort()]
const baseUrl = `http://127.0.0.1:${svcPort}`
const acme = useIdentityProvider('acme', acmePort, baseUrl)

describe.skipIf(!hasBrowser)('an authorization by somebody who signs in with a provider', () => {
  const t = useListeningApp(svcPort, { ...acme.environment, PASSWORD_SIGN_IN: 'admins', SIGN_UP: 'open' })
  const thirdParty = useThirdPartyApp(appPort, baseUrl)
  const browser = useBrowser()

  it('leads from the application through the provider and the consent back to the application', async () => {
    acme.people.set('eve', { preferred_username: 'eve', email: 'eve@acme.example', email_verified: true })
    const application = await anApplication(t.db, { redirectUri: thirdParty.redirectUri })
    const page = await browser.newPage()
    await page.goto(await thirdParty.begin(application.clientId))
    await page.getByRole('link', { name: 'Sign in with Acme' }).click()
    await page.getByLabel('Person').fill('eve')
    await page.getByRole('button', { name: 'Sign in there' }).click()
    await page.getByRole('button', { name: /Authorize/ }).click()
    await page.getByRole('heading', { name: 'Back at the application' }).waitFor()
    const tokens = await thirdParty.finish(application.clientId, application.clientSecret)
    const user = await fetch(`${baseUrl}/api/user`, {
      headers: { authorization: `Bearer ${tokens.access_token}` },
    })
    expect(await user.json()).toMatchObject({ username: 'eve' })
  })

  it('also after the question whether an account is theirs', async () => {
    const ann = await anAccount(t.db)
    acme.people.set('ann', { preferred_username: ann.username })
    const application = await anApplication(t.db, { redirectUri: thirdParty.redirectUri })
    const page = await browser.newPage()
    await page.goto(await thirdParty.begin(application.clientId))
    await page.getByRole('link', { name: 'Sign in with Acme' }).click()
    await page.getByLabel('Person').fill('ann')
    await page.getByRole('button', { name: 'Sign in there' }).click()
    await page.getByLabel(`Password of ${ann.username}`).fill(password)
    await page.getByRole('button', { name: 'It is mine: link it' }).click()
    await page.getByRole('button', { name: /Authorize/ }).click()
    await page.getByRole('heading', { name: 'Back at the application' }).waitFor()
    // An earlier consent exists, so the next sign-in redirects to the application at once.
    await page.context().clearCookies()
    await page.goto(await thirdParty.begin(application.clientId))
    await page.getByRole('link', { name: 'Sign in with Acme' }).click()
    await page.getByLabel('Person').fill('ann')
    await page.getByRole('button', { name: 'Sign in there' }).click()
    await page.getByRole('heading', { name: 'Back at the application' }).waitFor()
    const tokens = await thirdParty.finish(application.clientId, application.clientSecret)
    expect(tokens.access_token).toMatch(/^svca_/)
  })

  it('and they confirm a sensitive act at the provider, in a form that the browser lets leave this site', async () => {
    acme.people.set('bob', { preferred_username: 'bob' })
    const page = await browser.newPage({ baseURL: baseUrl })
    const signInThere = async () => {
      await page.getByLabel('Person').fill('bob')
      await page.getByRole('button', { name: 'Sign in there' }).click()
    }
    await page.goto('/login/oidc/acme')
    await signInThere()
    await setProofAges(t.db, '1 hour')
    await page.goto('/login/oidc/acme/link')
    await page.getByRole('heading', { name: 'Confirm access' }).waitFor()
    await page.getByRole('button', { name: 'Confirm with Acme' }).click()
    // The provider knows the browser, and asks again all the same.
    await signInThere()
    await page.waitForURL('**/login/oidc/acme/link')
    const bob = await storedAccount(t.db, { username: 'bob' })
    expect(await countRecentProofs(t.db, { id: bob?.id ?? '' })).toBe(1)
  })
})
