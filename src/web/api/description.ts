import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type RouteOptions,
} from 'fastify'
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
  serializerCompiler,
  validatorCompiler,
} from 'fastify-type-provider-zod'
import * as z from 'zod'
import type { Config } from '../../config.ts'
import { keepResult } from '../../domain/keep-result.ts'
import { describeScopes } from '../../domain/scope-descriptions.ts'
import { allScopes } from '../../domain/scopes.ts'
import { hasTag, tagOf } from '../conditional-requests.ts'
import { withoutTurn } from '../network-turns.ts'
import { tags } from './endpoint.ts'
import { registryPaths, registrySchemas } from './registry-description.ts'

/** A part of an OpenAPI document. */
type Node = { [name: string]: unknown }

/**
 * Only strict objects, which are request bodies, forbid other members. Responses may gain members in later releases.
 */
const schemaOptions: Parameters<typeof createJsonSchemaTransform>[0] = {
  zodToJsonConfig: {
    override({ zodSchema, jsonSchema }) {
      if (zodSchema instanceof z.ZodObject && zodSchema._zod.def.catchall === undefined) {
        delete jsonSchema.additionalProperties
      }
    },
  },
}

/** What the description tells of an endpoint. */
type Described = Pick<RouteOptions, 'method' | 'url' | 'schema'>

/**
 * Adds `GET /api/openapi.json`, which describes the endpoints that the scope adds from now on. The first request loads what
 * describes them, which is a twentieth of the modules of a server, and serializes the description.
 */
export function describeApi(app: FastifyInstance, config: Config): void {
  const endpoints: Described[] = []
  app.addHook('onRoute', ({ method, url, schema }) => {
    if (schema?.tags) endpoints.push({ method, url, schema })
  })
  const serialize = keepResult(async () => {
    const bytes = Buffer.from(JSON.stringify(await describe(endpoints, config)))
    return { bytes, etag: tagOf(bytes) }
  })

  const send = async (request: FastifyRequest, reply: FastifyReply) => {
    const { bytes, etag } = await serialize()
    // Everybody gets the same description.
    reply.headers({ 'cache-control': 'public, no-cache', etag })
    if (hasTag(request.headers['if-none-match'], etag)) return reply.code(304).send()
    return reply.type('application/json; charset=utf-8').send(bytes)
  }
  // The page of the API reference requests it, and has a turn already.
  app.get('/openapi.json', withoutTurn(send))
}

/** Describes the endpoints (OpenAPI 3.1). The schemas that validate their requests also describe them. */
async function describe(endpoints: readonly Described[], config: Config): Promise<Node> {
  const { default: swagger } = await import('@fastify/swagger')
  const transformObject = createJsonSchemaTransformObject(schemaOptions)
  const described = Fastify()
  described.setValidatorCompiler(validatorCompiler)
  described.setSerializerCompiler(serializerCompiler)
  await described.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'svc',
        version: '1',
        summary: 'Accounts, repositories and Composer packages',
        description:
          'Send an access token of an application, a personal access token or a deploy token as `Authorization: Bearer <token>`. ' +
          'Lists are paged: follow the `Link` header with rel="next". Responses may gain members at any time.',
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: config.baseUrl }],
      tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
      components: { securitySchemes: securitySchemes(config) },
    },
    transform: createJsonSchemaTransform(schemaOptions),
    transformObject: (document) => {
      const transformed = transformObject(document) as unknown as Node
      return complete(transformed) as ReturnType<typeof transformObject>
    },
  })
  for (const endpoint of endpoints) described.route({ ...endpoint, handler: () => {} })
  await described.ready()
  return described.swagger() as unknown as Node
}

function securitySchemes(config: Config) {
  return {
    application: {
      type: 'oauth2' as const,
      description: 'An access token of an application',
      flows: {
        authorizationCode: {
          authorizationUrl: `${config.authUrl}/oauth2/auth`,
          tokenUrl: `${config.authUrl}/oauth2/token`,
          refreshUrl: `${config.authUrl}/oauth2/token`,
          scopes: Object.fromEntries(allScopes.map((scope) => [scope, describeScope(scope)])),
        },
      },
    },
    personalToken: {
      type: 'http' as const,
      scheme: 'bearer',
      description: 'A personal access token or a deploy token with the scope that the endpoint requires',
    },
    registryToken: {
      type: 'http' as const,
      scheme: 'basic',
      description: 'The username `svc` and a token as the password',
    },
  }
}

function describeScope(scope: string): string {
  const [group] = describeScopes([scope])
  return group?.scopes[0]?.can ?? scope
}

/**
 * Adds what the schemas of routes cannot describe: the registry's endpoints, the Link header of lists, and
 * responses without a body.
 */
function complete(document: Node): Node {
  const paths = document['paths'] as Record<string, Record<string, Node>>
  for (const operations of Object.values(paths)) {
    // Each GET endpoint has it.
    delete operations['head']
    for (const operation of Object.values(operations)) {
      const isPaged = (operation['parameters'] as Node[] | undefined)?.some(({ name }) => name === 'cursor')
      const ok = (operation['responses'] as Record<string, Node>)['200']
      if (isPaged && ok) ok['headers'] = { Link: linkHeader }
      // The transformation describes a response without a body as an empty schema.
      delete (operation['responses'] as Record<string, Node>)['204']?.['content']
    }
  }
  const components = document['components'] as Node & { schemas: object }
  return withoutUnusedSchemas({
    ...document,
    paths: { ...paths, ...registryPaths },
    components: { ...components, schemas: { ...components.schemas, ...registrySchemas } },
  })
}

const linkHeader = {
  description: 'The URL of the next part, with rel="next". Missing on the last part',
  schema: { type: 'string' },
  example: '<https://svc.example.com/api/repositories?cursor=YWNtZS9waHA>; rel="next"',
}

/** Removes schemas that nothing refers to. Each named schema exists twice, as input and as output. */
function withoutUnusedSchemas(document: Node): Node {
  const components = document['components'] as Node & { schemas: Record<string, unknown> }
  const kept: Record<string, unknown> = {}
  let text = JSON.stringify(document['paths'])
  for (let isGrowing = true; isGrowing; ) {
    const found = Object.entries(components.schemas).filter(
      ([name]) => !(name in kept) && text.includes(`"#/components/schemas/${name}"`),
    )
    for (const [name, schema] of found) kept[name] = schema
    text += JSON.stringify(found)
    isGrowing = found.length > 0
  }
  return { ...document, components: { ...components, schemas: kept } }
}
