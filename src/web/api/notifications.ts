import * as z from 'zod'
import { findVisibleRepository } from '../../groups/repositories.ts'
import { type Choices, changeChoices, findChoices } from '../../notifications/choices.ts'
import { deliveryNames, type Topic, topicNames, topics } from '../../notifications/topics.ts'
import { listWatched, setWatching } from '../../notifications/watching.ts'
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

const WatchedPath = z.object({
  group: z.string().max(100).meta({ description: 'The name of the group', example: 'acme' }),
  name: z.string().max(100).meta({ description: 'The name of the repository', example: 'php' }),
})

/** What the person of the token is told by mail: `/api/user/notifications` and `/api/user/watched`. */
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

  function describe({ digestHour, ...chosen }: Choices): z.input<typeof Notifications> {
    return { ...chosen, digest_hour: digestHour, sends_mail: config.mail !== null }
  }
}
