import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import type pg from 'pg'
import { noteExchangesJob } from '../../src/oauth/exchange-events.ts'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { openLog } from '../../src/web/server/log.ts'
import { anAccount } from './actors.ts'
import type { TestApp } from './app.ts'
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
  endpoint: 'token' | 'revoke' | 'introspect' | 'device',
  form: Form,
): Promise<LightMyRequestResponse> {
  return postForm({ app }, `/oauth2/${endpoint}`, new URLSearchParams(form).toString(), {
    authorization: basic,
  })
}

/** Sends a body with the content type of a form. The body may be anything. */
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

/** Sends a form to an OAuth endpoint as a public client: with its `client_id`, and without a secret (OPENID 203). */
export function askAsPublic(
  t: Pick<Server, 'app'>,
  { clientId }: Pick<ApplicationActor, 'clientId'>,
  endpoint: 'token' | 'revoke' | 'introspect' | 'device',
  form: Form,
): Promise<LightMyRequestResponse> {
  return postForm(t, `/oauth2/${endpoint}`, new URLSearchParams({ client_id: clientId, ...form }).toString())
}

/** Returns functions for the requests that an application sends to the token and revocation endpoints. */
export function tokenClient(t: Pick<Server, 'app'>, application: Pick<ApplicationActor, 'basic'>) {
  return {
    exchange: (code: string, form: Form = {}) =>
      ask(t, application, 'token', { grant_type: 'authorization_code', code, ...form }),
    refresh: (refreshToken: string, form: Form = {}) =>
      ask(t, application, 'token', { grant_type: 'refresh_token', refresh_token: refreshToken, ...form }),
    revoke: (token: string, form: Form = {}) => ask(t, application, 'revoke', { token, ...form }),
  }
}

/** An account that has authorized an application. Returns functions for the application's requests. */
export async function anAuthorizedApplication(t: Server, { scopes }: { scopes?: string[] } = {}) {
  const account = await anAccount(t.db, { displayName: 'Ann' })
  const application = await anApplication(t.db)
  const authorization = await anAuthorization(t.db, account, application, scopes ? { scopes } : {})
  const client = tokenClient(t, application)
  const newCode = (differences: Parameters<typeof aCode>[2] = {}) => aCode(t.db, authorization, differences)
  return {
    account,
    application,
    authorization,
    ...client,
    newCode,
    /** Exchanges a new code for a first pair. */
    tokens: async (): Promise<TokenResponse> => (await client.exchange(await newCode())).json(),
  }
}

/** Returns true if the API accepts the access token. */
export async function works({ app }: Pick<Server, 'app'>, accessToken: string): Promise<boolean> {
  const response = await app.inject({ url: '/api/user', headers: { authorization: `Bearer ${accessToken}` } })
  if (response.statusCode !== 200 && response.statusCode !== 401) throw new Error(response.body)
  return response.statusCode === 200
}

/** Simulates that time passes, for all codes, token pairs and grants of the database: makes them older. */
export async function pass(db: pg.Pool, seconds: number): Promise<void> {
  await db.query(
    `with codes as (
       update authorization_code
          set created_at = created_at - $1::interval, expires_at = expires_at - $1::interval,
              redeemed_at = redeemed_at - $1::interval
     ), sweeps as (
       update sweep_position set reached_at = reached_at - $1::interval
     ), authorizations as (
       update account_authorization set ended_at = ended_at - $1::interval where ended_at is not null
     ), grants as (
       update authorization_grant set ended_at = ended_at - $1::interval where ended_at is not null
     ), superseded as (
       update superseded_grant set superseded_at = superseded_at - $1::interval
     )
     update token_pair
        set created_at = created_at - $1::interval, superseded_at = superseded_at - $1::interval,
            access_expires_at = access_expires_at - $1::interval,
            refresh_expires_at = refresh_expires_at - $1::interval`,
    [`${seconds} seconds`],
  )
}

/** Runs the job that writes the events of exchanged codes. */
export async function noteEveryExchange({ config, db }: Pick<TestApp, 'config' | 'db'>): Promise<void> {
  const signal = new AbortController().signal
  await noteExchangesJob.run({ config, db, log: openLog('silent') }, undefined, signal)
}
