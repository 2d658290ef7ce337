import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { type Act, isForPeople, isOnSite, placeOf, scopesOf } from '../../domain/permissions.ts'
import { type Guard, requireBearer } from './guards.ts'

/** The type of the scope of `/api`. Handlers get their input as their zod schema describes it. */
export type ApiScope = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>

/** The sections of the API reference. */
export const tags = {
  Account: 'The account behind the token',
  Accounts: 'Accounts, for site administrators with an admin token',
  Applications: 'Registered applications, for site administrators with an admin token',
  Groups: 'Groups of repositories',
  Repositories: 'Repositories, their members and their events',
  Packages: 'Packages of a repository',
  Versions: 'Versions of a package',
  Upstreams: 'Other Composer repositories whose packages a repository offers',
  'Trusted publishers': 'CI jobs that publish or read without a stored secret',
  Sources: 'Git repositories whose tags and branches become versions',
  Webhooks: 'Servers that get a message when something happens',
  Projects: 'Lock files of projects: which project has which version of a package',
  Security: 'Quarantine and security advisories',
  Registry:
    'What Composer and curl call. Credentials: HTTP Basic with the username `svc` and a token as password',
} as const

/** The input and output of an endpoint. It validates requests and describes the endpoint in the OpenAPI document. */
export interface EndpointSchema {
  operationId: string
  tag: keyof typeof tags
  summary: string
  description?: string
  params?: z.ZodObject
  querystring?: z.ZodObject
  /** A strict object: an unknown member is an error. */
  body?: z.ZodObject
  response: Partial<Record<200 | 201 | 202 | 204, z.ZodType>>
}

/** The body of every error (CONTRACT 6.1): a gRPC code and a sentence. */
const ErrorBody = z
  .object({
    errcode: z.int().meta({ description: 'A gRPC status code', example: 5 }),
    errmsg: z.string().meta({ description: 'What is wrong', example: 'package not found' }),
  })
  .meta({ id: 'Error', description: 'Every error of the API has this format.' })

/** The response of an endpoint that returns nothing. */
export const NoContent = z.undefined().meta({ description: 'Done. The response has no body.' })

/**
 * Returns the route options of an endpoint. A request without credentials is refused before its body is read. The guard
 * runs after that, because a slow body may arrive after the token was revoked. It runs before the input is validated, so
 * a request without permission gets no details about its input.
 */
export function endpoint<Schema extends EndpointSchema>(guard: Guard<unknown>, { tag, ...schema }: Schema) {
  const scopes = scopesOf(guard.act)
  const forPeople = { personalToken: scopes }
  const security = isForPeople(guard.act) ? [forPeople] : [{ application: scopes }, forPeople]
  const named = `${scopes.length === 1 ? 'scope' : 'scopes'} ${scopes.map((scope) => `\`${scope}\``).join(', ')}`
  const required = `Requires ${describeToken(guard.act)}the ${named}${describeReach(guard.act)}.`
  const description = [schema.description, required].filter(Boolean).join(' ')
  return {
    config: { scopes },
    onRequest: requireBearer,
    preValidation: guard.preValidation,
    schema: {
      ...schema,
      tags: [tag],
      description,
      security,
      response: { ...schema.response, '4xx': ErrorBody } as Schema['response'],
    } as Omit<Schema, 'tag'> & { tags: string[]; security: typeof security },
  }
}

function describeToken(act: Act): string {
  if (isOnSite(act)) return 'an admin token with '
  return isForPeople(act) ? 'a personal access token with ' : ''
}

function describeReach(act: Act): string {
  if (!isForPeople(act)) return ''
  return placeOf(act) === 'repository' ? ', for the repository' : ', for all repositories'
}

/** A point in time (RFC 3339). */
export const Moment = z.iso.datetime().meta({ example: '2026-11-21T03:25:00.000Z' })
