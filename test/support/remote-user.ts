import type { Queryable } from '../../src/database/database.ts'
import { aMember, anAccount, aPersonalToken, aRepository } from './actors.ts'
import { aCode, anApplication, anAuthorization } from './oauth-actors.ts'
import { aPackageZip, basic } from './registry-actors.ts'

/** The response of the token endpoint. */
export interface IssuedTokens {
  access_token: string
  refresh_token: string
}

/**
 * A developer of a private repository who has also authorized an application. Every call gets the URL of a server, so
 * one user can use many processes.
 */
export async function aRemoteUser(db: Queryable) {
  const repository = await aRepository(db)
  const account = await anAccount(db)
  await aMember(db, account, repository, 'developer')
  const headers = { authorization: basic(await aPersonalToken(db, account)) }
  const application = await anApplication(db)
  const authorization = await anAuthorization(db, account, application)
  const path = `/${repository.path}/-/packages/`

  const askAs = (endpoint: string, form: Record<string, string>) => (url: string) =>
    fetch(`${url}/oauth2/${endpoint}`, {
      method: 'POST',
      headers: { authorization: application.basic },
      body: new URLSearchParams(form),
    })

  return {
    account,
    /** The path of the repository, `acme/php`. */
    repository: repository.path,
    push: (url: string, version: string, name = 'acme/lib') =>
      fetch(`${url}${path}upload/${name}/${version}`, {
        method: 'PUT',
        headers,
        body: new Uint8Array(aPackageZip(name, { description: version })),
      }),
    pull: (url: string, file = 'p2/acme/lib.json') => fetch(`${url}${path}${file}`, { headers }),
    /** Exchanges a new code for a first pair. */
    async tokens(url: string): Promise<IssuedTokens> {
      const code = await aCode(db, authorization)
      const response = await askAs('token', { grant_type: 'authorization_code', code })(url)
      if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
      return (await response.json()) as IssuedTokens
    },
    refresh: (url: string, token: string) =>
      askAs('token', { grant_type: 'refresh_token', refresh_token: token })(url),
    revoke: (url: string, token: string) => askAs('revoke', { token })(url),
    /** Uses an access token. `from` is the client IP for a server that trusts this machine as a proxy. */
    check: (url: string, token: string, from?: string) =>
      fetch(`${url}/api/user`, {
        headers: { authorization: `Bearer ${token}`, ...(from && { 'x-forwarded-for': from }) },
      }),
  }
}
