import { z } from 'zod'
import type { Config } from '../config.ts'
import { allScopes } from '../domain/scopes.ts'
import type { InterfaceDescription } from './interface.ts'
import { PageQuery } from './paging.ts'

/** An interface with the address it has. */
export interface DescribedRoute {
  method: string
  /** As Fastify has it: `/api/groups/:group/repositories`. */
  url: string
  about: InterfaceDescription
}

const ErrorBody = z.object({ errcode: z.int(), errmsg: z.string() })

/** The description of all interfaces (OpenAPI 3.1), made from what they are judged by, so that the two cannot differ. */
export function describeInterfaces(routes: readonly DescribedRoute[], config: Config): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const { method, url, about } of routes) {
    const path = url.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [method.toLowerCase()]: describeOperation(url, about) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'svc',
      version: '1',
      description: 'Interfaces for access tokens of applications and personal access tokens.',
    },
    servers: [{ url: config.baseUrl }],
    paths,
    components: {
      schemas: { Error: jsonSchema(ErrorBody, 'output') },
      responses: {
        Refusal: {
          description: 'A refusal: errcode is a number of gRPC, errmsg says why.',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
        },
      },
      securitySchemes: {
        personalToken: { type: 'http', scheme: 'bearer' },
        application: {
          type: 'oauth2',
          flows: {
            authorizationCode: {
              authorizationUrl: `${config.authUrl}/oauth2/auth`,
              tokenUrl: `${config.authUrl}/oauth2/token`,
              refreshUrl: `${config.authUrl}/oauth2/token`,
              scopes: Object.fromEntries(allScopes.map((scope) => [scope, ''])),
            },
          },
        },
      },
    },
  }
}

function describeOperation(url: string, about: InterfaceDescription): object {
  const { summary, scope, body, answer, status, isPaged } = about
  const parameters = [
    ...Array.from(url.matchAll(/:(\w+)/g), ([, name]) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...queryParameters(about.query),
    ...(isPaged ? queryParameters(PageQuery) : []),
  ]
  return {
    summary,
    ...(scope !== null && {
      description: `Needs the scope ${scope}.`,
      security: [{ application: [scope] }, { personalToken: [scope] }],
    }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: { required: true, content: { 'application/json': { schema: jsonSchema(body, 'input') } } },
    }),
    responses: {
      [status]: {
        description: status === 204 ? 'Done.' : 'The answer.',
        ...(isPaged && {
          headers: {
            Link: { description: 'rel="next": the next part of the list.', schema: { type: 'string' } },
          },
        }),
        ...(answer && { content: { 'application/json': { schema: jsonSchema(answer, 'output') } } }),
      },
      default: { $ref: '#/components/responses/Refusal' },
    },
  }
}

function queryParameters(query: z.ZodObject | null): object[] {
  const { properties = {}, required = [] } = query ? jsonSchema(query, 'input') : {}
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }))
}

function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): z.core.JSONSchema.BaseSchema {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io })
  return rest
}
