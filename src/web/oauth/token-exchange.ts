import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Queryable } from '../../database/database.ts'
import { countAttempt, limitsFrom } from '../../database/failure-limit.ts'
import { networkOf } from '../../domain/client-ip.ts'
import { hashSecret } from '../../domain/secrets.ts'
import { openTurns } from '../../domain/turns.ts'
import { registryUrl } from '../../groups/repositories.ts'
import {
  type ExchangeContext,
  type ExchangeRequest,
  exchangeIdentityToken,
  type IssuedToken,
} from '../../publishers/exchange.ts'
import { ExchangeRefusal } from '../../publishers/exchange-refusal.ts'
import { revokePublisherToken } from '../../publishers/publisher-tokens.ts'
import { tokenPrincipalOf } from '../principal.ts'
import { type Form, formOf, hasClientCredentials, readParameters } from './client-request.ts'
import { OAuthError, sendJson } from './errors.ts'

/** The grant type of a token exchange (RFC 8693 §2.1). */
export const exchangeGrantType = 'urn:ietf:params:oauth:grant-type:token-exchange'
const tokenType = 'urn:ietf:params:oauth:token-type:'
const identityTokenTypes = [`${tokenType}id_token`, `${tokenType}jwt`]

/** Only an exchange reads these. RFC 8707 allows other grants to repeat `resource`. */
const exchangeParameters = new Set([
  'resource',
  'subject_token',
  'subject_token_type',
  'requested_token_type',
] as const)

/** This many refused exchanges of a network in a minute get their reason. Further ones get 429. */
const failuresPerNetwork = 120
const windowSeconds = 60
/** Exchanges have turns of their own, so that many of them delay no other grant. */
const turnLimits = { atOnce: 4, atOnceOfOwner: 3, waiting: 500, waitingOfOwner: 100, waitingSeconds: 10 }

/** Exchanges identity tokens for the requests of a process. */
export interface TokenExchange {
  /** The grant type of the token endpoint. The assertion is the credential, so clients do not authenticate. */
  exchange: (request: FastifyRequest, form: Form) => Promise<object>
  /** The endpoint that Dependabot's proxy knows, `POST {base_url}/access/api/v1/oidc/token`. Its tokens only read. */
  exchangeToRead: (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>
}

/** Opens the exchange of a process. */
export function openTokenExchange(context: ExchangeContext): TokenExchange {
  const { db, config } = context
  const inTurn = openTurns(turnLimits, (whose) => busy(whose === 'owner' ? 429 : 503))

  async function run(request: FastifyRequest, about: Omit<ExchangeRequest, 'by'>): Promise<IssuedToken> {
    const network = networkOf(request.ip)
    try {
      const by = tokenPrincipalOf(request)(null, null)
      return await exchangeIdentityToken(context, { ...about, by }, (task) => inTurn(network, task))
    } catch (error) {
      if (!(error instanceof ExchangeRefusal)) throw error
      request.log.info({ reason: error.message }, 'an identity token was not exchanged')
      await countFailure(db, network)
      throw new OAuthError(error.code, asDescription(error.message))
    }
  }

  return {
    async exchange(request, form) {
      if (request.headers.authorization !== undefined || form.client_secret !== undefined)
        throw new OAuthError(
          'invalid_request',
          'The identity token is the credential of this grant: send no credentials of a client.',
        )
      const { resource, subject_token, subject_token_type, requested_token_type } = readParameters(
        exchangeParameters,
        request,
      )
      const subjectToken = required('subject_token', subject_token)
      requireTokenType(required('subject_token_type', subject_token_type))
      if ((requested_token_type ?? `${tokenType}access_token`) !== `${tokenType}access_token`)
        throw new OAuthError('invalid_request', `The requested_token_type must be ${tokenType}access_token.`)
      const place = placeOfRegistry(required('resource', resource), config.baseUrl)
      const issued = await run(request, { ...place, subjectToken, isReadOnly: false })
      return {
        access_token: issued.token,
        issued_token_type: `${tokenType}access_token`,
        token_type: 'bearer',
        expires_in: issued.expiresIn,
        scope: issued.scope,
      }
    },

    async exchangeToRead(request, reply) {
      const body = (request.body ?? {}) as Record<string, unknown>
      const read = (name: string) => {
        const value = body[name]
        return required(name, typeof value === 'string' && !value.includes('\0') ? value : '')
      }
      if (read('grant_type') !== exchangeGrantType)
        throw new OAuthError('unsupported_grant_type', `The grant_type must be ${exchangeGrantType}.`)
      requireTokenType(read('subject_token_type'))
      const [group = '', name = '', ...rest] = read('provider_name').split('/')
      const place = rest.length > 0 ? nowhere : { group, name }
      const subjectToken = read('subject_token')
      const { token, expiresIn } = await run(request, { ...place, subjectToken, isReadOnly: true })
      return sendJson(reply, { access_token: token, expires_in: expiresIn })
    },
  }
}

/** The audience for which a CI must issue its identity tokens. */
export async function audienceRoute(
  app: FastifyInstance,
  { config }: Pick<ExchangeContext, 'config'>,
): Promise<void> {
  app.get('/audience', async (_request, reply) => sendJson(reply, { audience: config.authUrl }))
}

/**
 * Revokes a token of a trusted publisher for its holder, if the request has no credentials of a client at all. Returns false
 * for every other request. An unknown token counts as a failure of the network, because anybody can send it.
 */
export async function revokeForHolder(
  db: Queryable,
  request: FastifyRequest,
  isPublisherToken: (token: string) => boolean,
): Promise<boolean> {
  const form = formOf(request)
  if (hasClientCredentials(request, form) || form.token === undefined || !isPublisherToken(form.token))
    return false
  if (!(await revokePublisherToken(db, hashSecret(form.token)))) await countFailure(db, networkOf(request.ip))
  return true
}

async function countFailure(db: Queryable, network: string): Promise<void> {
  const blockedSeconds = await countAttempt(
    db,
    limitsFrom(network, { subject: 'exchanges', attempts: failuresPerNetwork, windowSeconds }),
  )
  if (blockedSeconds > 0) throw busy(429, blockedSeconds)
}

function busy(status: 429 | 503, seconds = 2): OAuthError {
  const text = status === 429 ? 'Your network sends too many of these requests.' : 'The server is busy.'
  return new OAuthError('temporarily_unavailable', `${text} Try again later.`, {
    status,
    headers: { 'retry-after': String(seconds) },
  })
}

function required(name: string, value: string | undefined): string {
  if (value) return value
  throw new OAuthError('invalid_request', `The parameter ${name} is missing.`)
}

function requireTokenType(type: string): void {
  if (!identityTokenTypes.includes(type))
    throw new OAuthError(
      'invalid_request',
      `The subject_token_type must be ${identityTokenTypes.join(' or ')}.`,
    )
}

/** No repository has these names. */
const nowhere = { group: '', name: '' }

/** Returns the group and the name in the URL of a registry, with or without its last slash. */
function placeOfRegistry(resource: string, baseUrl: string): { group: string; name: string } {
  const prefix = `${baseUrl}/`
  if (!resource.startsWith(prefix)) return nowhere
  const [group = '', name = ''] = resource.slice(prefix.length).split('/')
  const url = registryUrl(baseUrl, `${group}/${name}`)
  return resource === url || `${resource}/` === url ? { group, name } : nowhere
}

/** RFC 6749 §5.2 limits the characters of a description. */
function asDescription(text: string): string {
  return text
    .slice(0, 4000)
    .replaceAll('"', "'")
    .replace(/[^\x20-\x5b\x5d-\x7e]/gu, '?')
}
