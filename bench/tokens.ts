import type { TokenResponse } from '../src/oauth/token.ts'
import { anAccount } from '../test/support/actors.ts'
import { aCode, anApplication, anAuthorization } from '../test/support/oauth-actors.ts'
import { requestText } from './load.ts'
import { type Measured, measure, measuredCells, measuredHead } from './measure.ts'
import type { Server } from './server.ts'
import { table } from './table.ts'

const connections = 32

/** What the token endpoints cost: each request with a code or token of its own, of 100 accounts in turn. */
export async function measureTokens(server: Server, count: number): Promise<string> {
  const application = await anApplication(server.db)
  const codes = await makeCodes(server, application, count)
  const rows: [string, Measured][] = []

  async function post(title: string, endpoint: string, forms: Record<string, string>[]): Promise<Measured> {
    const headers = { authorization: application.basic, 'content-type': 'application/x-www-form-urlencoded' }
    const requests = forms.map((form) => {
      const body = new URLSearchParams(form).toString()
      return requestText(`/oauth2/${endpoint}`, { method: 'POST', headers, body })
    })
    const load = { connections, count: forms.length, requests, status: 200, keepBodies: true }
    const measured = await measure(server, load)
    rows.push([title, measured])
    return measured
  }

  const exchanged = await post(
    'exchange',
    'token',
    codes.map((code) => ({ grant_type: 'authorization_code', code })),
  )
  const first = exchanged.bodies.map((body) => JSON.parse(body) as TokenResponse)
  const refreshed = await post(
    'refresh',
    'token',
    first.map(({ refresh_token }) => ({ grant_type: 'refresh_token', refresh_token })),
  )
  const pairs = refreshed.bodies.map((body) => JSON.parse(body) as TokenResponse)
  const tokens = pairs.map(({ access_token }) => ({ token: access_token }))
  await post('introspect', 'introspect', tokens)
  const requests = tokens.map(({ token }) =>
    requestText('/api/user', { headers: { authorization: `Bearer ${token}` } }),
  )
  rows.push([
    'GET /api/user',
    await measure(server, { connections, count: requests.length, requests, status: 200 }),
  ])
  await post('revoke', 'revoke', tokens)
  return table(
    ['request', ...measuredHead],
    rows.map(([title, measured]) => [title, ...measuredCells(measured)]),
  )
}

async function makeCodes(
  { db }: Server,
  application: Awaited<ReturnType<typeof anApplication>>,
  count: number,
): Promise<string[]> {
  const authorizations = await Promise.all(
    Array.from({ length: 100 }, async () => anAuthorization(db, await anAccount(db), application)),
  )
  const turns = Array.from({ length: Math.ceil(count / authorizations.length) }, () => authorizations).flat()
  return Promise.all(turns.slice(0, count).map((authorization) => aCode(db, authorization)))
}
