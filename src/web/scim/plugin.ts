import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import {
  addDirectoryGroup,
  changeDirectoryGroup,
  findDirectoryGroup,
  type GroupCondition,
  listDirectoryGroups,
  removeDirectoryGroup,
} from '../../accounts/directory/directory-groups.ts'
import {
  changeDirectoryUser,
  findDirectoryUser,
  listDirectoryUsers,
  type PeopleDirectory,
  provisionUser,
  removeDirectoryUser,
  type UserCondition,
} from '../../accounts/directory/directory-users.ts'
import { scopesOf } from '../../domain/permissions.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { apiResource } from '../../domain/resources.ts'
import { keepingRules } from '../api/errors.ts'
import { type ApiContext, guardAdministrator } from '../api/guards.ts'
import { nameResource } from '../bearer-challenge.ts'
import { handleInTurn } from '../network-turns.ts'
import { addScope } from '../scope.ts'
import { refuseAllOthers } from '../unmatched-requests.ts'
import { describeResourceTypes, describeSchemas, describeService, maxResults } from './discovery.ts'
import { ScimRefusal, scimType, sendScimError } from './errors.ts'
import { type FilterTerm, readFilter, unsupported } from './filter.ts'
import { patchGroup, patchUser } from './patch.ts'
import { describeGroup, describeUser, readBody, readGroup, readUser, schemas } from './resources.ts'

/** A group can have 20,000 members in one request. */
const maxBodyBytes = 2 * 1024 * 1024

/** The names of attributes, as a text of a query with commas, or as a list of a body. */
const names = z
  .union([z.string().transform((text) => text.split(',')), z.array(z.string())])
  .transform((list) => list.map((name) => name.trim().toLowerCase()))
  .optional()

/** What a response has of each resource (RFC 7644 §3.9). */
const SelectionQuery = z.object({ attributes: names, excludedAttributes: names })
type Selection = z.output<typeof SelectionQuery>

/** The parameters of a list, in the query of a GET or in the body of a search. */
const ListRequest = SelectionQuery.extend({
  filter: z.string().optional(),
  // Values below 1 count as 1, and too many results are cut (RFC 7644 §3.4.2.4).
  startIndex: z.coerce.number().int().max(1_000_000_000).default(1),
  count: z.coerce.number().int().default(maxResults),
})

const userAttributes: Readonly<Record<string, UserCondition['attribute']>> = {
  id: 'id',
  username: 'userName',
  externalid: 'externalId',
  emails: 'email',
  'emails.value': 'email',
  active: 'active',
}

const groupAttributes: Readonly<Record<string, GroupCondition['attribute']>> = {
  id: 'id',
  displayname: 'displayName',
  externalid: 'externalId',
  members: 'member',
  'members.value': 'member',
}

/** The attributes that a filter can compare. */
const filtered = { User: userAttributes, Group: groupAttributes }

/** What a request of a directory may use. */
interface Call {
  directory: PeopleDirectory
  by: Principal
  /** The base URL of the endpoints of the directory. */
  url: string
  id: string
}

/**
 * The endpoints for directories that create and end accounts (SCIM 2.0, RFC 7643 and 7644). Each sign-in provider has its
 * own, for the directory behind it. The token is one of a site administrator.
 */
export async function scim(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { config, db } = context
  const mayManage = guardAdministrator('manageAccounts', context)

  function callOf(request: FastifyRequest): Call {
    const { provider, id = '' } = request.params as Record<string, string | undefined>
    const directory = config.providers.find(({ name }) => name === provider)
    if (!directory) throw nothingHere()
    const { by } = mayManage.granted(request)
    return { directory, by, id, url: `${config.baseUrl}/api/scim/${directory.name}/v2` }
  }

  /** Lists resources of some kinds, one kind after the other. */
  async function list({ directory, url }: Call, kinds: readonly ('User' | 'Group')[], given: unknown) {
    const asked = readBody(ListRequest, given)
    const terms = readFilter(asked.filter)
    const known = kinds.filter((kind) =>
      terms.every(({ attribute }) => Object.hasOwn(filtered[kind], attribute)),
    )
    if (known.length === 0) {
      throw unsupported(
        `cannot compare ${terms.map(({ attribute }) => JSON.stringify(attribute)).join(' and ')}`,
      )
    }
    const first = Math.max(asked.startIndex, 1) - 1
    const most = Math.min(Math.max(asked.count, 0), maxResults)
    const resources: object[] = []
    let total = 0
    for (const kind of known) {
      const part = { offset: Math.max(first - total, 0), limit: most - resources.length }
      if (kind === 'User') {
        const found = await listDirectoryUsers(db, directory, {
          ...part,
          where: conditionsOf(terms, userAttributes),
        })
        total += found.total
        resources.push(...found.users.map((user) => choose(asked, describeUser(user, url))))
      } else {
        const found = await listDirectoryGroups(db, directory, {
          ...part,
          where: conditionsOf(terms, groupAttributes),
          withMembers: isShown(asked, 'members'),
        })
        total += found.total
        resources.push(...found.groups.map((group) => choose(asked, describeGroup(group, url))))
      }
    }
    return listOf(resources, total, first + 1)
  }

  await addScope(
    app,
    'scim',
    async (scope) => {
      handleInTurn(scope)
      scope.setErrorHandler(sendScimError)
      nameResource(scope, config.baseUrl, () => apiResource)
      readScimBodies(scope)
      scope.addHook('onRequest', (request, reply, done) => {
        reply.header('cache-control', 'private, no-store')
        // PostgreSQL cannot store NUL in text, so no name contains one.
        done(request.url.includes('%00') ? nothingHere() : undefined)
      })
      await refuseAllOthers(scope, { wrongMethod: methodNotAllowed, nothingHere }, async () => {
        const route = {
          config: { scopes: scopesOf(mayManage.act) },
          // Before the body, which can be large, and again after it: a slow body may arrive after the token was revoked.
          onRequest: mayManage.preValidation,
          preValidation: mayManage.preValidation,
          bodyLimit: maxBodyBytes,
        }

        scope.get('/ServiceProviderConfig', route, async (request, reply) =>
          send(reply, 200, describeService(callOf(request).url)),
        )
        for (const [path, describe] of [
          ['/ResourceTypes', describeResourceTypes],
          ['/Schemas', describeSchemas],
        ] as const) {
          scope.get(path, route, async (request, reply) => {
            const all = describe(callOf(request).url)
            return send(reply, 200, listOf(all, all.length, 1))
          })
          scope.get(`${path}/:id`, route, async (request, reply) => {
            const { url, id } = callOf(request)
            const found = describe(url).find((one) => one.id === id)
            if (!found) throw nothingHere()
            return send(reply, 200, found)
          })
        }

        // A list can also be asked for by POST, so that its filter stands in no log (RFC 7644 §3.4.3).
        for (const [path, kinds] of [
          ['/Users', ['User']],
          ['/Groups', ['Group']],
          ['', ['User', 'Group']],
        ] as const) {
          if (path !== '') {
            scope.get(path, route, async (request, reply) =>
              send(reply, 200, await list(callOf(request), kinds, request.query)),
            )
          }
          scope.post(`${path}/.search`, route, async (request, reply) =>
            send(reply, 200, await list(callOf(request), kinds, request.body)),
          )
        }

        scope.post('/Users', route, async (request, reply) => {
          const { directory, by, url } = callOf(request)
          const person = readUser(request.body)
          const user = describeUser(await keepingRules(() => provisionUser(db, by, directory, person)), url)
          return send(reply.header('location', user.meta.location), 201, choose(selectionOf(request), user))
        })
        scope.get('/Users/:id', route, async (request, reply) => {
          const { directory, id, url } = callOf(request)
          return send(
            reply,
            200,
            choose(selectionOf(request), describeUser(await findDirectoryUser(db, directory, id), url)),
          )
        })
        scope.put('/Users/:id', route, async (request, reply) => {
          const { directory, by, id, url } = callOf(request)
          const person = readUser(request.body)
          const user = await keepingRules(() => changeDirectoryUser(db, by, directory, id, () => person))
          return send(reply, 200, choose(selectionOf(request), describeUser(user, url)))
        })
        scope.patch('/Users/:id', route, async (request, reply) => {
          const { directory, by, id, url } = callOf(request)
          const user = await keepingRules(() =>
            changeDirectoryUser(db, by, directory, id, (current) => patchUser(current, request.body)),
          )
          return send(reply, 200, choose(selectionOf(request), describeUser(user, url)))
        })
        scope.delete('/Users/:id', route, async (request, reply) => {
          const { directory, by, id } = callOf(request)
          await removeDirectoryUser(db, by, directory, id)
          return reply.code(204).send()
        })

        scope.post('/Groups', route, async (request, reply) => {
          const { directory, by, url } = callOf(request)
          const draft = readGroup(request.body)
          const group = describeGroup(
            await keepingRules(() => addDirectoryGroup(db, by, directory, draft)),
            url,
          )
          return send(reply.header('location', group.meta.location), 201, choose(selectionOf(request), group))
        })
        scope.get('/Groups/:id', route, async (request, reply) => {
          const { directory, id, url } = callOf(request)
          const group = await findDirectoryGroup(db, directory, id, isShown(selectionOf(request), 'members'))
          return send(reply, 200, choose(selectionOf(request), describeGroup(group, url)))
        })
        scope.put('/Groups/:id', route, async (request, reply) => {
          const { directory, by, id, url } = callOf(request)
          const draft = readGroup(request.body)
          const group = await keepingRules(() => changeDirectoryGroup(db, by, directory, id, () => draft))
          return send(reply, 200, choose(selectionOf(request), describeGroup(group, url)))
        })
        // Entra ID needs no answer, which would have all members (RFC 7644 §3.5.2).
        scope.patch('/Groups/:id', route, async (request, reply) => {
          const { directory, by, id } = callOf(request)
          await keepingRules(() =>
            changeDirectoryGroup(db, by, directory, id, (current) => patchGroup(current, request.body)),
          )
          return reply.code(204).send()
        })
        scope.delete('/Groups/:id', route, async (request, reply) => {
          const { directory, by, id } = callOf(request)
          await removeDirectoryGroup(db, by, directory, id)
          return reply.code(204).send()
        })
      })
    },
    '/api/scim/:provider/v2',
  )
}

/** Reads bodies as JSON: SCIM has its own content type (RFC 7644 §3.1). */
function readScimBodies(scope: FastifyInstance): void {
  const parseJson = scope.getDefaultJsonParser('error', 'error')
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser<string>(
    ['application/scim+json', 'application/json'],
    { parseAs: 'string', bodyLimit: maxBodyBytes },
    (request, body, done) =>
      void (body === ''
        ? done(null, undefined)
        : parseJson(request, body, (error, value) =>
            error ? done(new ScimRefusal('invalidSyntax', 'the body is not JSON')) : done(null, value),
          )),
  )
}

function conditionsOf<Attribute>(
  terms: readonly FilterTerm[],
  attributes: Readonly<Record<string, Attribute>>,
): { attribute: Attribute; value: string }[] {
  return terms.map(({ attribute, value }) => ({ attribute: attributes[attribute] as Attribute, value }))
}

function listOf(resources: readonly unknown[], total: number, startIndex: number) {
  return {
    schemas: [schemas.list],
    totalResults: total,
    startIndex,
    itemsPerPage: resources.length,
    Resources: resources,
  }
}

/** The members that every resource has (RFC 7643 §3.1). */
const always = ['schemas', 'id']

function selectionOf(request: FastifyRequest): Selection {
  return readBody(SelectionQuery, request.query)
}

/** Returns the attributes that a request asks for (RFC 7644 §3.9). */
function choose<Resource extends object>(selection: Selection, resource: Resource): Partial<Resource> {
  const shown = Object.entries(resource).filter(([name]) => always.includes(name) || isShown(selection, name))
  return Object.fromEntries(shown) as Partial<Resource>
}

/** Returns whether a request asks for an attribute. A part of it, such as `name.givenName`, brings all of it. */
function isShown({ attributes, excludedAttributes = [] }: Selection, name: string): boolean {
  const wanted = name.toLowerCase()
  if (attributes !== undefined) return attributes.some((one) => one.replace(/\..*$/, '') === wanted)
  return !excludedAttributes.includes(wanted)
}

function send(reply: FastifyReply, status: number, body: unknown): FastifyReply {
  return reply.code(status).type(scimType).send(body)
}

function methodNotAllowed(allow: string): Refusal {
  return new Refusal(errcode.unimplemented, `the method must be one of ${allow}`, { status: 405 })
}

/** Returns the error for every URL of a directory without a route, and for providers that do not exist. */
export function nothingHere(): Refusal {
  return new Refusal(errcode.notFound, 'there is nothing here')
}
