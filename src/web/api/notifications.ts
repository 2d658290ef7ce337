import * as z from 'zod'
import { findVisibleGroup } from '../../groups/groups.ts'
import { findVisibleRepository } from '../../groups/repositories.ts'
import { type Choices, changeChoices, findChoices } from '../../notifications/choices.ts'
import { deliveryNames, type Topic, topicNames, topics } from '../../notifications/topics.ts'
import {
  listWatched,
  listWatchedGroups,
  setWatching,
  setWatchingGroup,
} from '../../notifications/watching.ts'
import { type ApiScope, endpoint, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { type ApiContext, guardPerson } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

const Delivery = z.enum(deliveryNames)
const hour = z.int().min(0).max(23).meta({ description: 'When the daily digest is sent, in UTC', example: 7 })
const choices = Object.fromEntries(
  topicNames.map((topic) => [topic, Delivery.meta({ description: topics[topic].hint, example: 'daily' })]),
) as Record<Topic, typeof Delivery>

const Notifications = z
  .object({
    ...choices,
    digest_hour: hour,
    sends_mail: z.boolean().meta({ description: 'Whether this site sends mails' }),
  })
  .meta({
    id: 'Notifications',
    description: 'What a person is told by mail: `off`, `at_once` or in the `daily` digest',
  })

const NotificationsUpdate = z
  .strictObject({ ...choices, digest_hour: hour })
  .partial()
  .meta({ id: 'NotificationsUpdate' })

const WatchedRepository = z
  .object({
    repository: z.string().meta({ description: 'The path of the repository', example: 'acme/php' }),
    visibility: z.string().meta({ description: '`private` or `public`', example: 'private' }),
  })
  .meta({ id: 'WatchedRepository', description: 'A repository whose releases a person is told about' })

const WatchedGroup = z
  .object({ group: z.string().meta({ description: 'The name of the group', example: 'acme' }) })
  .meta({ id: 'WatchedGroup', description: 'A group whose releases a person is told about' })

const groupName = z.string().max(100).meta({ description: 'The name of the group', example: 'acme' })
const WatchedPath = z.object({
  group: groupName,
  name: z.string().max(100).meta({ description: 'The name of the repository', example: 'php' }),
})

/** What the person of the token is told by mail: `/api/user/notifications`, `/api/user/watched` and `/api/user/watched-groups`. */
export async function notificationEndpoints(app: ApiScope, context: ApiContext): Promise<void> {
  const { config, db } = context
  const mayRead = guardPerson('readNotifications', context)
  const mayChange = guardPerson('changeNotifications', context)
  const tag = 'Account'

  app.get(
    '/user/notifications',
    endpoint(mayRead, {
      operationId: 'getNotifications',
      tag,
      summary: 'Get what the person is told by mail',
      response: { 200: Notifications },
    }),
    async (request) => describe(await findChoices(db, mayRead.granted(request).accountId)),
  )

  app.patch(
    '/user/notifications',
    endpoint(mayChange, {
      operationId: 'updateNotifications',
      tag,
      summary: 'Choose what the person is told by mail',
      description: 'Mails about the security of the account cannot be switched off.',
      body: NotificationsUpdate,
      response: { 200: Notifications },
    }),
    async (request) => {
      const { digest_hour: digestHour, ...chosen } = request.body
      const changes = { ...chosen, ...(digestHour !== undefined && { digestHour }) } as Partial<Choices>
      return describe(await changeChoices(context, mayChange.granted(request).accountId, changes))
    },
  )

  app.get(
    '/user/watched',
    endpoint(mayRead, {
      operationId: 'listWatched',
      tag,
      summary: 'List the repositories that the person watches',
      querystring: PageQuery,
      response: { 200: z.array(WatchedRepository) },
    }),
    async (request, reply) => {
      const { accountId } = mayRead.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listWatched(db, accountId, part),
        ({ path }) => path,
        ({ path, visibility }) => ({ repository: path, visibility }),
      )
    },
  )

  for (const method of ['put', 'delete'] as const)
    app[method](
      '/user/watched/:group/:name',
      endpoint(mayChange, {
        operationId: method === 'put' ? 'watchRepository' : 'unwatchRepository',
        tag,
        summary: method === 'put' ? 'Watch a repository' : 'Stop watching a repository',
        params: WatchedPath,
        response: { 204: NoContent },
      }),
      async (request, reply) => {
        const { accountId } = mayChange.granted(request)
        const repository = await findVisibleRepository(db, request.params, accountId)
        if (!repository) throw notFound('repository not found')
        await setWatching(db, accountId, repository.id, method === 'put')
        return reply.code(204).send()
      },
    )

  app.get(
    '/user/watched-groups',
    endpoint(mayRead, {
      operationId: 'listWatchedGroups',
      tag,
      summary: 'List the groups that the person watches',
      querystring: PageQuery,
      response: { 200: z.array(WatchedGroup) },
    }),
    async (request, reply) => {
      const { accountId } = mayRead.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listWatchedGroups(db, accountId, part),
        ({ name }) => name,
        ({ name }) => ({ group: name }),
      )
    },
  )

  for (const method of ['put', 'delete'] as const)
    app[method](
      '/user/watched-groups/:group',
      endpoint(mayChange, {
        operationId: method === 'put' ? 'watchGroup' : 'unwatchGroup',
        tag,
        summary:
          method === 'put'
            ? 'Watch all repositories of a group'
            : 'Stop watching all repositories of a group',
        description:
          'The person is told about the repositories that they may read, also about those that come later. Repositories that ' +
          'the person watches by themselves stay watched.',
        params: z.object({ group: groupName }),
        response: { 204: NoContent },
      }),
      async (request, reply) => {
        const { accountId } = mayChange.granted(request)
        const group = await findVisibleGroup(db, request.params.group, accountId, { asSiteAdmin: false })
        if (!group) throw notFound('group not found')
        await setWatchingGroup(db, accountId, group.id, method === 'put')
        return reply.code(204).send()
      },
    )

  function describe({ digestHour, ...chosen }: Choices): z.input<typeof Notifications> {
    return { ...chosen, digest_hour: digestHour, sends_mail: config.mail !== null }
  }
}
