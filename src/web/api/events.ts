import * as z from 'zod'
import { findAccountByUsername } from '../../accounts/accounts.ts'
import { decideOnSite } from '../../domain/permissions.ts'
import { tokenKinds } from '../../domain/secrets.ts'
import { isPlainIp } from '../../domain/setting-formats.ts'
import { actionsOf, filterableActions } from '../../events/actions.ts'
import { type Event as AnyEvent, describeEvent } from '../../events/event.ts'
import { type AuditFilter, listEvents, listGroupEvents, means } from '../../events/event-list.ts'
import { listRepositoryEvents } from '../../events/registry-events.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import { GroupPath } from './groups.ts'
import { type ApiContext, guardAdministrator, guardGroup, guardRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const Event = z
  .object({
    id: z.int().meta({
      description: 'Not unique: an event of an account and another one may have the same',
      example: 4711,
    }),
    happened_at: Moment.meta({ description: 'When it happened' }),
    action: z.string().meta({ description: 'What happened', example: 'publish' }),
    package: z
      .string()
      .nullable()
      .meta({ description: 'Null for an event of the whole repository', example: 'acme/hello' }),
    version: z
      .string()
      .nullable()
      .meta({ description: 'Null for an event of the whole package', example: '1.0.0' }),
    account: z.string().nullable().meta({
      description:
        'Username; null for the command line and for deploy tokens, "deleted account" after the account was deleted',
      example: 'alice',
    }),
    token: z
      .object({
        kind: z
          .enum([...tokenKinds, 'source'])
          .meta({ description: 'The kind of token; `source`: a Git source' }),
        id: z.int().meta({ description: 'Id of the token', example: 7 }),
        name: z
          .string()
          .nullable()
          .meta({ description: 'Name of a deploy token; null for other tokens', example: 'build server' }),
      })
      .nullable()
      .meta({ description: 'The token that was used' }),
    ip: z.string().nullable().meta({ description: 'Client IP', example: '192.0.2.17' }),
    details: z
      .record(z.string(), z.unknown())
      .meta({ description: 'More about it, by action', example: { size: 12_345 } }),
  })
  .meta({ id: 'Event' })

const ListedEvent = Event.extend({
  repository: z
    .string()
    .nullable()
    .meta({ description: 'Path. For a deleted repository, its last path', example: 'acme/php' }),
  group: z.string().nullable().meta({
    description: 'The group in which it happened. It is about the whole group if `repository` is null',
    example: 'acme',
  }),
  about_account: z
    .string()
    .nullable()
    .meta({ description: 'The account that an event of accounts is about', example: 'alice' }),
  application: z
    .string()
    .nullable()
    .meta({ description: 'Name of the application that the event is about', example: 'Build service' }),
  via: z
    .enum(['browser', 'api', 'command', 'application'])
    .nullable()
    .meta({ description: 'How it was done; null for svc itself' }),
  user_agent: z
    .string()
    .nullable()
    .meta({ description: 'User-Agent header. Only site administrators see it', example: 'Composer/2.8' }),
  request_id: z
    .string()
    .nullable()
    .meta({ description: 'Id of the request in the log. Only site administrators see it', example: 'req-1' }),
}).meta({ id: 'ListedEvent' })

const username = z.string().max(39)
const GroupEventsQuery = PageQuery.extend({
  account: username.optional().meta({
    description: 'Only events about this account, what it did, and changes of its roles',
    example: 'alice',
  }),
  action: z
    .string()
    .refine((action) => filterableActions.includes(action), { message: 'must be an action or an area' })
    .optional()
    .meta({
      description: 'Only this action, or the actions of an area, such as `packages`, `members` or `settings`',
      example: 'delete-repository',
    }),
  repository: z
    .string()
    .regex(/^[^/\0]{1,64}\/[^/\0]{1,100}$/, { message: 'must be a path such as acme/php' })
    .optional()
    .meta({ description: 'Only events of repositories that have, or had, this path', example: 'acme/php' }),
  package: z
    .string()
    .max(300)
    .regex(/^[^\0]*$/)
    .optional()
    .meta({ description: 'Only events of this package', example: 'acme/hello' }),
  means: z.enum(means).optional().meta({ description: 'Only what was done in this way' }),
  since: z.iso
    .datetime()
    .optional()
    .meta({ description: 'Only events from this time on', example: '2027-01-31T13:45:00Z' }),
  until: z.iso
    .datetime()
    .optional()
    .meta({ description: 'Only events before this time', example: '2027-02-28T13:45:00Z' }),
})
const SiteEventsQuery = GroupEventsQuery.extend({
  actor: username.optional().meta({ description: 'Only what this account did', example: 'alice' }),
  ip: z
    .string()
    .refine(isPlainIp, { message: 'must be an IP address' })
    .optional()
    .meta({ description: 'Only events from this client IP', example: '192.0.2.17' }),
})

/** Events of a repository or a group, `…/events`, and of the whole site for its administrators, `/api/events`. */
export async function eventRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const mayRead = guardRepository('readSettings', context)
  const mayReadGroup = guardGroup('readGroupEvents', context)
  const mayReadAll = guardAdministrator('readSiteEvents', context)

  app.get(
    '/repositories/:group/:name/events',
    endpoint(mayRead, {
      operationId: 'listEvents',
      tag: 'Repositories',
      summary: 'List the events of a repository, latest first',
      description:
        'Admins of the group see the events of the group too. Other admins of the repository see those that concern it, without client IPs.',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(Event) },
    }),
    async (request, reply) => {
      const { repositoryId, access } = mayRead.granted(request)
      return readPage(
        { request, reply, config: context.config },
        (part) => listRepositoryEvents(context.db, repositoryId, part, access),
        ({ id }) => id,
        describeForApi,
      )
    },
  )

  app.get(
    '/groups/:group/events',
    endpoint(mayReadGroup, {
      operationId: 'listGroupEvents',
      tag: 'Groups',
      summary: 'List the events of a group and its repositories, also deleted ones, latest first',
      params: GroupPath,
      querystring: GroupEventsQuery,
      response: { 200: z.array(ListedEvent) },
    }),
    async (request, reply) => {
      const { groupId, accountId } = mayReadGroup.granted(request)
      const filter = await filterOf(request.query)
      return readPage(
        { request, reply, config: context.config },
        (part) => listGroupEvents(context.db, groupId, filter, part, accountId),
        ({ key }) => key,
        describeForApi,
      )
    },
  )

  app.get(
    '/events',
    endpoint(mayReadAll, {
      operationId: 'listSiteEvents',
      tag: 'Repositories',
      summary: 'List the events of the whole site, latest first, for site administrators',
      description:
        'Events of accounts, tokens and applications are in the list when the token also has the scope `group-manage:r`.',
      querystring: SiteEventsQuery,
      response: { 200: z.array(ListedEvent) },
    }),
    async (request, reply) => {
      const { accountId, credential } = mayReadAll.granted(request)
      const leavesOutIdentities = decideOnSite(credential, 'readSite') !== 'allowed'
      const filter = { ...(await filterOf(request.query)), leavesOutIdentities }
      return readPage(
        { request, reply, config: context.config },
        (part) => listEvents(context.db, filter, part, accountId),
        ({ key }) => key,
        describeForApi,
      )
    },
  )

  async function filterOf(query: Partial<z.output<typeof SiteEventsQuery>>): Promise<AuditFilter> {
    const { account, actor, action, repository, package: packageName, since, until, ip } = query
    const idOf = async (name: string) => (await findAccountByUsername(context.db, name))?.id ?? null
    return {
      account: account === undefined ? null : { id: await idOf(account), username: account },
      // An account that does not exist did nothing.
      actorId: actor === undefined ? null : ((await idOf(actor)) ?? '0'),
      actions: action === undefined ? null : actionsOf(action),
      repositoryPath: repository ?? null,
      packageName: packageName ?? null,
      means: query.means ?? null,
      ip: ip ?? null,
      since: since === undefined ? null : new Date(since),
      until: until === undefined ? null : new Date(until),
    }
  }
}

/** Here `account` is the account that acted. */
function describeForApi(event: AnyEvent): z.input<typeof ListedEvent> {
  const { account, actor, ...described } = describeEvent(event)
  return { ...described, account: actor, about_account: account }
}
