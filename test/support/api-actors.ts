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
    call: (method, below = '', payload) =>
      callApi(t, publisher.token, method, `/api/repositories/${publisher.repository.path}${below}`, payload),
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
