import type { LightMyRequestResponse } from 'fastify'
import type { TestApp } from './app.ts'
import { aPublisher, type Publisher } from './registry-actors.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** A caller of the endpoints about a repository, who may also publish to it. */
export interface Caller extends Publisher {
  /** Calls an endpoint below the repository's URL. */
  call: (method: Method, below?: string, payload?: object) => Promise<LightMyRequestResponse>
}

/** Every scope that an endpoint about repositories requires. */
export const everyScope = [
  'repo-basic-info:r',
  'registry-package:rw',
  'registry-package-delete:rw',
  'registry-manage:rw',
  'registry-delete:rw',
]

/** An admin of a new private repository with every scope. `differences` may change this. */
export async function aCaller(
  t: TestApp,
  { role = 'admin', scopes = everyScope, ...about }: Parameters<typeof aPublisher>[1] = {},
): Promise<Caller> {
  const publisher = await aPublisher(t, { role, scopes, ...about })
  return {
    ...publisher,
    async call(method, below = '', payload) {
      const url = `/api/repositories/${publisher.repository.path}${below}`
      const call = () => callApi(t, publisher.token, method, url, payload)
      const adds = role === 'admin' && method === 'POST' && below === '/upstreams'
      return adds ? asOperator(t, publisher.account.id, call) : call()
    },
  }
}

/** Calls an endpoint with a bearer token. */
export function callApi(
  t: TestApp,
  token: string,
  method: Method,
  url: string,
  payload?: object,
): Promise<LightMyRequestResponse> {
  return t.app.inject({
    method,
    url,
    headers: { authorization: `Bearer ${token}` },
    ...(payload && { payload }),
  })
}

/** How many calls of `asOperator` run for an account. */
const operators = new Map<string, number>()

/**
 * Does something as a site administrator, with admin tokens: only their upstreams may be on this machine. The account
 * has no such right before and after that.
 */
export async function asOperator<T>(t: TestApp, accountId: string, work: () => Promise<T>): Promise<T> {
  const set = async (change: 1 | -1) => {
    const running = (operators.get(accountId) ?? 0) + change
    operators.set(accountId, running)
    const tokens = 'update personal_token set is_admin = $2 where account_id = $1'
    const scope = `and resource_scope = 'all'`
    // The end of the role would revoke admin tokens.
    if (running === 0) await t.db.query(tokens, [accountId, false])
    await t.db.query('update account set is_admin = $2 where id = $1', [accountId, running > 0])
    if (running > 0) await t.db.query(`${tokens} ${scope}`, [accountId, true])
  }
  await set(1)
  try {
    return await work()
  } finally {
    await set(-1)
  }
}
