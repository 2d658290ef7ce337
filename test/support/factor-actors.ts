import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { generateSync } from 'otplib'
import { type AccountActor, anAccount, cookiesOf, csrfTokenIn, password, post, signIn } from './actors.ts'
import type { TestApp } from './app.ts'

/** Someone with an authenticator app. */
export interface FactorActor extends AccountActor {
  /** The secret in base32. */
  secret: string
  recoveryCodes: string[]
  /** The Cookie header of the browser that set it up. */
  cookie: string
}

/** Returns the code that an app shows now. */
export function codeOf(secret: string, secondsFromNow = 0): string {
  return generateSync({ secret, epoch: Math.floor(Date.now() / 1000) + secondsFromNow })
}

/** Lets the account use its codes again. */
export async function forgetCodes({ db }: Pick<TestApp, 'db'>, { id }: { id: string }): Promise<void> {
  await db.query('update totp_factor set last_time_step = 0 where account_id = $1', [id])
}

/** Sets up an authenticator app in the browser of a signed-in account, without using up a code. */
export async function enrol(t: TestApp, account: AccountActor, cookie: string): Promise<FactorActor> {
  const home = await t.app.inject({ url: '/settings/second-factor', headers: { cookie } })
  const csrf_token = csrfTokenIn(home)
  await post(t.app, '/settings/second-factor/totp', cookie, { csrf_token })
  const page = await t.app.inject({ url: '/settings/second-factor/totp', headers: { cookie } })
  const secret = secretIn(page)
  const form = { csrf_token, code: codeOf(secret) }
  const confirmed = await post(t.app, '/settings/second-factor/totp/confirm', cookie, form)
  await forgetCodes(t, account)
  return { ...account, secret, cookie, recoveryCodes: recoveryCodesIn(confirmed) }
}

/** Someone with an authenticator app. */
export async function aPersonWithTotp(
  t: TestApp,
  about: Parameters<typeof anAccount>[1] = {},
): Promise<FactorActor> {
  const account = await anAccount(t.db, about)
  return enrol(t, account, await signIn(t.app, account))
}

/** The secret on the page that sets up an app. */
export function secretIn({ body, statusCode }: LightMyRequestResponse): string {
  const [, secret] = /id="secret">([A-Z2-7 ]+)</.exec(body) ?? []
  if (secret === undefined) throw new Error(`no secret on the page: ${statusCode}`)
  return secret.replaceAll(' ', '')
}

/** The recovery codes on the page that shows them. */
export function recoveryCodesIn({ body }: LightMyRequestResponse): string[] {
  return /id="codes">([^<]+)</.exec(body)?.[1]?.split('\n') ?? []
}

/** A browser that has sent the password and must send the second factor. */
export interface HalfSignedIn {
  /** Sends the second step, from a client IP that counts only with TRUST_PROXY. */
  send: (typed: { code?: string; recovery_code?: string }, ip?: string) => Promise<LightMyRequestResponse>
  cookie: string
  /** The page that asks for the second factor. */
  page: LightMyRequestResponse
}

/** Sends the password in the sign-in form at `url`, from a browser that may have a device cookie already. */
export async function halfSignIn(
  app: FastifyInstance,
  { username }: { username: string },
  url = '/login',
  device = '',
): Promise<HalfSignedIn> {
  const form = await app.inject(url)
  const returnId = /name="return" value="([^"]*)"/.exec(form.body)?.[1] ?? ''
  const fields = { csrf_token: csrfTokenIn(form), username, password, return: returnId }
  const cookies = `${cookiesOf(form)}; ${device}`
  const response = await post(app, '/login', cookies, fields)
  const cookie = `${cookies}; ${cookiesOf(response)}`
  const page = await app.inject({ url: String(response.headers.location), headers: { cookie } })
  const sent = /name="return" value="([^"]*)"/.exec(page.body)?.[1] ?? ''
  const csrf_token = csrfTokenIn(page)
  return {
    cookie,
    page,
    send: (typed, ip = '192.0.2.1') => {
      const form = { csrf_token, return: sent, ...typed }
      return post(app, '/login/second-factor', cookie, form, { 'x-forwarded-for': ip })
    },
  }
}

/** Returns the URL to which the page after a confirmation sends the form that waited. */
export function continuedUrlIn({ body }: { body: string }): string {
  return (/action="([^"]+)" data-continue/.exec(body)?.[1] ?? '').replaceAll('&amp;', '&')
}
