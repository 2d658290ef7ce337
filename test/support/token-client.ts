import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import type pg from 'pg'
import type { TokenResponse } from '../../src/oauth/grants.ts'
import { anAccount } from './actors.ts'
import { type ApplicationActor, aCode, anApplication, anAuthorization } from './oauth-actors.ts'

interface Server {
  readonly app: FastifyInstance
  readonly db: pg.Pool
}

type Form = Record<string, string>

/** Sends a form to an OAuth endpoint as the application, by HTTP Basic. */
export function ask(
  { app }: Pick<Server, 'app'>,
  { basic }: Pick<ApplicationActor, 'basic'>,
  endpoint: 'token' | 'revoke' | 'introspect',
  form: Form,
): Promise<LightMyRequestResponse> {
  return postForm({ app }, `/oauth2/${endpoint}`, new URLSearchParams(form).toString(), {
    authorization: basic,
  })
}

/** Sends a body as a form, whatever it holds. */
export function postForm(
  { app }: Pick<Server, 'app'>,
  url: string,
  payload: string | Buffer,
  headers: Record<string, string> = {},
): Promise<LightMyRequestResponse> {
  return app.inject({
    method: 'POST',
    url,
    payload,
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
  })
}

/** An account that has authorized an application, and what the application does about it. */
export async function anAuthorizedApplication(
  t: Server,
  { application, scopes }: { application?: ApplicationActor; scopes?: string[] } = {},
) {
  const account = await anAccount(t.db, { displayName: 'Ann', email: `${Math.random()}@example.com` })
  const client = application ?? (await anApplication(t.db))
  const authorization = await anAuthorization(t.db, account, client, scopes ? { scopes } : {})
  const exchange = (code: string, form: Form = {}) =>
    ask(t, client, 'token', { grant_type: 'authorization_code', code, ...form })
  return {
    account,
    application: client,
    authorization,
    newCode: (differences: Parameters<typeof aCode>[2] = {}) => aCode(t.db, authorization, differences),
    exchange,
    refresh: (refreshToken: string, form: Form = {}) =>
      ask(t, client, 'token', { grant_type: 'refresh_token', refresh_token: refreshToken, ...form }),
    revoke: (token: string, form: Form = {}) => ask(t, client, 'revoke', { token, ...form }),
    /** A first pair, from a new code. */
    tokens: async (): Promise<TokenResponse> => {
      const answer = await exchange(await aCode(t.db, authorization))
      return answer.json()
    },
  }
}

/** True while the API accepts the access token. */
export async function works({ app }: Pick<Server, 'app'>, accessToken: string): Promise<boolean> {
  const answer = await app.inject({ url: '/api/user', headers: { authorization: `Bearer ${accessToken}` } })
  if (answer.statusCode !== 200 && answer.statusCode !== 401) throw new Error(answer.body)
  return answer.statusCode === 200
}

/** Lets time pass for all codes and token pairs of the database: everything in them happened that much earlier. */
export async function pass(db: pg.Pool, seconds: number): Promise<void> {
  await db.query(
    `with codes as (
       update authorization_code
          set created_at = created_at - $1::interval, expires_at = expires_at - $1::interval,
              redeemed_at = redeemed_at - $1::interval
     )
     update token_pair
        set created_at = created_at - $1::interval, superseded_at = superseded_at - $1::interval,
            access_expires_at = access_expires_at - $1::interval,
            refresh_expires_at = refresh_expires_at - $1::interval`,
    [`${seconds} seconds`],
  )
}
