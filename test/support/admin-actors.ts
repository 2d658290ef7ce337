import type { LightMyRequestResponse } from 'fastify'
import { anAccount, csrfTokenIn, signIn } from './actors.ts'
import type { TestApp } from './app.ts'
import { pixel } from './oauth-actors.ts'

/** A site administrator who is signed in. */
export async function anAdministrator(t: TestApp) {
  const account = await anAccount(t.db, { isAdmin: true })
  const cookie = await signIn(t.app, account)
  const page = await t.app.inject({ url: '/admin/accounts', headers: { cookie } })
  return { account, cookie, csrf_token: csrfTokenIn(page) }
}

/** The fields of the form that registers an application. */
export const registrationFields = {
  name: 'Build Bot',
  description: 'Builds\r\nthings',
  website: 'https://bot.example.com',
  redirect_uri: 'https://bot.example.com/callback',
  scope: ['account-profile:r', 'registry-package:rw'] as string | string[],
  resource_scope: 'all',
}

/** Sends a form with a file as a browser does; null sends none. */
export function postFile(
  t: TestApp,
  url: string,
  cookie: string,
  fields: Record<string, string | string[]>,
  logo: Buffer | null = pixel,
): Promise<LightMyRequestResponse> {
  const boundary = '----the-boundary-of-a-test'
  const part = (head: string, body: Buffer | string) =>
    Buffer.concat([
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n`),
      Buffer.from(body),
      Buffer.from('\r\n'),
    ])
  const texts = Object.entries(fields).flatMap(([name, value]) =>
    [value].flat().map((one) => part(`name="${name}"`, one)),
  )
  const name = logo ? 'logo.png' : ''
  const file = part(`name="logo"; filename="${name}"\r\nContent-Type: application/octet-stream`, logo ?? '')
  return t.app.inject({
    method: 'POST',
    url,
    headers: { cookie, 'content-type': `multipart/form-data; boundary=${boundary}` },
    payload: Buffer.concat([...texts, file, Buffer.from(`--${boundary}--\r\n`)]),
  })
}
