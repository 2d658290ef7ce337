import type { Config } from '../../config.ts'
import type { Queryable } from '../../database/database.ts'
import { areResourcesOf } from '../../oauth/authorization-requests.ts'
import { readIdTokenHint } from '../../openid/id-tokens.ts'
import { type AuthorizeRequest, invalidTargetDescription } from './authorize-request.ts'

/** Why an account cannot have what a request asks for: an error for the application. */
export interface RequestRefusal {
  code: 'invalid_target' | 'login_required'
  description: string
}

/**
 * Returns why this account cannot have what a request asks for: the request is for somebody else (OPENID 249), or for a resource
 * that the account may not see (OPENID 274). Null if it can. Only an application to which the person has agreed may learn it:
 * otherwise any page could open a window, and ask who is signed in.
 */
export async function findRefusal(
  { config, db }: { config: Pick<Config, 'authUrl'>; db: Queryable },
  accountId: string,
  { idTokenHint, subject, resources }: Pick<AuthorizeRequest, 'idTokenHint' | 'subject' | 'resources'>,
): Promise<RequestRefusal | null> {
  const isOther: RequestRefusal = { code: 'login_required', description: 'Another account is signed in.' }
  if (subject !== null && subject !== accountId) return isOther
  if (idTokenHint !== null) {
    const hint = await readIdTokenHint(db, config, idTokenHint)
    if (hint?.accountId !== accountId) return isOther
  }
  if (resources && !(await areResourcesOf(db, accountId, resources)))
    return { code: 'invalid_target', description: invalidTargetDescription }
  return null
}
