import * as z from 'zod'
import type { Principal } from '../../domain/principal.ts'
import { rowId } from '../../domain/row-id.ts'
import {
  describeDelivery,
  describeDetails,
  findDelivery,
  listDeliveries,
  queueAgain,
  queuePing,
} from '../../webhooks/deliveries.ts'
import { choosableTypes, messageFormats } from '../../webhooks/message-types.ts'
import {
  addWebhook,
  changeWebhook,
  describeWebhook,
  findWebhook,
  listWebhooks,
  removeWebhook,
  rotateSecret,
  type Webhook,
  type WebhookPlace,
} from '../../webhooks/webhooks.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { GroupPath } from './groups.ts'
import { type ApiContext, type Guard, guardAdministrator, guardGroup, guardRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const settings = {
  url: z.string().max(1000).meta({
    description: 'URL of the receiver, with https://, without credentials',
    example: 'https://ci.example.com/hook',
  }),
  events: z
    .array(z.enum(choosableTypes))
    .min(1)
    .max(choosableTypes.length)
    .nullable()
    .meta({
      description: 'The types of events that it gets. Null for all, later ones too',
      example: ['version.published'],
    }),
  format: z.enum(messageFormats).meta({ description: 'The standard format, or what a chat displays' }),
  enabled: z.boolean().meta({ description: 'Whether it gets messages' }),
}

const WebhookSchema = z
  .object({
    id: z.int().meta({ description: 'Id of the webhook', example: 7 }),
    ...settings,
    events: z
      .array(z.string())
      .nullable()
      .meta(settings.events.meta() ?? {}),
    disabled_because: z.string().nullable().meta({
      description: 'Why svc has disabled it; null when it is enabled, or a person has disabled it',
      example: 'ci.example.com cannot be reached (ECONNREFUSED)',
    }),
    former_secret_until: Moment.nullable().meta({
      description: 'Until when the former secret signs, too; null when there is none',
    }),
    made_by: z.string().nullable().meta({
      description: 'Username; null for the command line, "deleted account" after the account was deleted',
      example: 'alice',
    }),
    created_at: Moment.meta({ description: 'When it was added' }),
  })
  .meta({ id: 'Webhook' })

const secret = z.string().meta({
  description: 'The secret that signs messages. It is returned only once',
  example: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=',
})
const WebhookDraft = z
  .strictObject({
    url: settings.url,
    events: settings.events.optional(),
    format: settings.format.optional(),
  })
  .meta({ id: 'WebhookDraft' })
const WebhookUpdate = z.strictObject(settings).partial().meta({ id: 'WebhookUpdate' })
const ChangedWebhook = WebhookSchema.extend({
  secret: secret
    .optional()
    .meta({ description: 'The new secret, only if the URL has another origin than before' }),
}).meta({ id: 'ChangedWebhook' })
const NewWebhook = WebhookSchema.extend({ secret }).meta({ id: 'NewWebhook' })
const NewSecret = z.object({ secret }).meta({ id: 'NewWebhookSecret' })

const DeliverySchema = z
  .object({
    id: z.int().meta({ description: 'Id of the delivery', example: 41 }),
    type: z.string().meta({ description: 'Type of the event', example: 'version.published' }),
    state: z.enum(['waiting', 'delivered', 'failed']).meta({
      description: '`waiting` for the first or next attempt; `failed`: not attempted again',
    }),
    status: z.int().nullable().meta({
      description: 'Status of the last response; null without one',
      example: 200,
    }),
    at: Moment.meta({ description: 'When the last attempt was, or when the event happened' }),
    duration_ms: z.int().nullable().meta({ description: 'How long the last attempt took', example: 35 }),
    attempt: z.int().meta({ description: 'The number of attempts', example: 1 }),
    message_id: z.string().meta({
      description: 'The header webhook-id, the same for each attempt',
      example: 'msg_3f0c0b8e6f7d4a3f9a51f6a7c2b1d0e4',
    }),
    failure: z.string().nullable().meta({
      description: 'Why the last attempt failed',
      example: 'ci.example.com responded with status 500',
    }),
    next_attempt_at: Moment.nullable().meta({ description: 'When the next attempt is due' }),
  })
  .meta({ id: 'WebhookDelivery' })
const response = z.string().nullable().meta({
  description: 'Start of the response; null without one, and for a private host',
  example: 'ok',
})
const AttemptSchema = z
  .object({
    at: Moment.meta({ description: 'When the attempt was' }),
    status: z
      .int()
      .nullable()
      .meta({ description: 'Status of the response; null without one', example: 200 }),
    duration_ms: z.int().meta({ description: 'How long it took', example: 35 }),
    failure: z.string().nullable().meta({
      description: 'Why it failed; null when the receiver accepted the message',
      example: 'ci.example.com responded with status 500',
    }),
    response,
  })
  .meta({ id: 'WebhookAttempt' })
const DeliveryDetails = DeliverySchema.extend({
  request: z.string().nullable().meta({
    description: 'Body of the request; null before the first attempt',
    example: '{"type":"ping","timestamp":"2026-11-21T03:25:00.000Z","data":{"webhook":7}}',
  }),
  response,
  attempts: z.array(AttemptSchema).meta({ description: 'The newest 20 attempts, the latest first' }),
}).meta({ id: 'WebhookDeliveryDetails' })
const Deliveries = z
  .object({ items: z.array(DeliverySchema).meta({ description: 'The deliveries, the latest first' }) })
  .meta({ id: 'WebhookDeliveries' })
const Queued = z.object({ id: DeliverySchema.shape.id }).meta({ id: 'QueuedDelivery' })

const webhookId = { webhook: rowId.meta({ description: 'Id of the webhook', example: '7' }) }
const deliveryId = { delivery: rowId.meta({ description: 'Id of the delivery', example: '41' }) }

/** The endpoints of one kind of place. */
interface Endpoints<Grant> {
  /** The URL of the place, such as `/groups/:group`. */
  of: string
  /** What operation ids name: `Group`. */
  name: string
  /** `a group`, for summaries. */
  words: string
  params: z.ZodObject
  guards: Record<'read' | 'add' | 'manage', Guard<Grant>>
  placeOf: (grant: Grant) => WebhookPlace
}

/** Webhooks of groups, of repositories, and of the site: `…/webhooks`. */
export async function webhookRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  addEndpoints(app, context, {
    of: '/groups/:group',
    name: 'Group',
    words: 'a group',
    params: GroupPath,
    guards: {
      read: guardGroup('readGroup', context),
      add: guardGroup('addGroupWebhook', context),
      manage: guardGroup('manageGroup', context),
    },
    placeOf: ({ groupId }) => ({ groupId, repositoryId: null }),
  })
  addEndpoints(app, context, {
    of: '/repositories/:group/:name',
    name: 'Repository',
    words: 'a repository',
    params: RepositoryPath,
    guards: {
      read: guardRepository('readSettings', context),
      add: guardRepository('addWebhook', context),
      manage: guardRepository('manage', context),
    },
    placeOf: ({ repositoryId }) => ({ groupId: null, repositoryId }),
  })
  const ofSite = guardAdministrator('manageWebhooks', context)
  addEndpoints(app, context, {
    of: '',
    name: 'Site',
    words: 'the site',
    params: z.object({}),
    guards: { read: guardAdministrator('readSite', context), add: ofSite, manage: ofSite },
    placeOf: () => ({ groupId: null, repositoryId: null }),
  })
}

function addEndpoints<Grant extends { by: Principal }>(
  app: ApiScope,
  context: ApiContext,
  { of, name, words, params, guards, placeOf }: Endpoints<Grant>,
): void {
  const { config, db } = context
  const { read, add, manage } = guards
  const url = `${of}/webhooks`
  const one = `${url}/:webhook`
  const OnePath = params.extend(webhookId)
  const DeliveryPath = OnePath.extend(deliveryId)

  app.get(
    url,
    endpoint(read, {
      operationId: `list${name}Webhooks`,
      tag: 'Webhooks',
      summary: `List the webhooks of ${words}, the oldest first`,
      params,
      querystring: PageQuery,
      response: { 200: z.array(WebhookSchema) },
    }),
    async (request, reply) => {
      const place = placeOf(read.granted(request))
      return readPage(
        { request, reply, config },
        (part) => listWebhooks(db, place, part),
        ({ id }) => id,
        describeWebhook,
      )
    },
  )

  app.post(
    url,
    endpoint(add, {
      operationId: `add${name}Webhook`,
      tag: 'Webhooks',
      summary: `Add a webhook to ${words}`,
      params,
      body: WebhookDraft,
      response: { 201: NewWebhook },
    }),
    async (request, reply) => {
      const grant = add.granted(request)
      const { url, events = null, format = 'json' } = request.body
      const place = placeOf(grant)
      const { id, secret } = await addWebhook(context, { place, by: grant.by }, { url, events, format })
      const webhook = await theWebhook(grant, id)
      return reply.code(201).send({ ...describeWebhook(webhook), secret })
    },
  )

  app.get(
    one,
    endpoint(read, {
      operationId: `get${name}Webhook`,
      tag: 'Webhooks',
      summary: `Get a webhook of ${words}`,
      params: OnePath,
      response: { 200: WebhookSchema },
    }),
    async (request) => describeWebhook(await webhookOf(read, request)),
  )

  app.patch(
    one,
    endpoint(add, {
      operationId: `change${name}Webhook`,
      tag: 'Webhooks',
      summary: `Change a webhook of ${words}`,
      description:
        'A webhook that is disabled loses the messages that wait. A URL with another origin (scheme, host and port) makes a new secret, and the former one ends.',
      params: OnePath,
      body: WebhookUpdate,
      response: { 200: ChangedWebhook },
    }),
    async (request) => {
      const grant = add.granted(request)
      const { id } = await webhookOf(add, request)
      const changes = Object.fromEntries(
        Object.entries(request.body).filter(([, value]) => value !== undefined),
      )
      const changed = await changeWebhook(context, { id, place: placeOf(grant), by: grant.by }, changes)
      const secret = changed?.secret ?? undefined
      return { ...describeWebhook(await theWebhook(grant, id)), secret }
    },
  )

  app.delete(
    one,
    endpoint(manage, {
      operationId: `remove${name}Webhook`,
      tag: 'Webhooks',
      summary: `Remove a webhook of ${words}, and its deliveries`,
      params: OnePath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const grant = manage.granted(request)
      const { id } = await webhookOf(manage, request)
      await removeWebhook(db, grant.by, { id, place: placeOf(grant) })
      return reply.code(204).send()
    },
  )

  app.post(
    `${one}/rotate`,
    endpoint(add, {
      operationId: `rotate${name}Webhook`,
      tag: 'Webhooks',
      summary: `Make a new secret for a webhook of ${words}`,
      description: 'The former secret signs for 24 hours, too.',
      params: OnePath,
      response: { 200: NewSecret },
    }),
    async (request) => {
      const grant = add.granted(request)
      const { id } = await webhookOf(add, request)
      const secret = await rotateSecret(context, { id, place: placeOf(grant), by: grant.by })
      if (secret === null) throw notFound('webhook not found')
      return { secret }
    },
  )

  app.post(
    `${one}/ping`,
    endpoint(manage, {
      operationId: `ping${name}Webhook`,
      tag: 'Webhooks',
      summary: `Send a test message to a webhook of ${words}`,
      description: 'It responds when the message is queued.',
      params: OnePath,
      response: { 202: Queued },
    }),
    async (request, reply) => {
      const id = await queuePing(db, await webhookOf(manage, request))
      return reply.code(202).send({ id: Number(id) })
    },
  )

  app.get(
    `${one}/deliveries`,
    endpoint(read, {
      operationId: `list${name}WebhookDeliveries`,
      tag: 'Webhooks',
      summary: `List the deliveries of a webhook of ${words}, the latest first`,
      description: 'They are kept for 30 days.',
      params: OnePath,
      querystring: PageQuery,
      response: { 200: Deliveries },
    }),
    async (request, reply) => {
      const { id } = await webhookOf(read, request)
      const items = await readPage(
        { request, reply, config },
        (part) => listDeliveries(db, id, part),
        (delivery) => delivery.id,
        describeDelivery,
      )
      return { items }
    },
  )

  app.get(
    `${one}/deliveries/:delivery`,
    endpoint(read, {
      operationId: `get${name}WebhookDelivery`,
      tag: 'Webhooks',
      summary: `Get a delivery of a webhook of ${words}, with request and attempts`,
      params: DeliveryPath,
      response: { 200: DeliveryDetails },
    }),
    async (request) => {
      const { id } = await webhookOf(read, request)
      const delivery = await findDelivery(db, id, request.params['delivery'] as string)
      if (!delivery) throw notFound('delivery not found')
      return describeDetails(delivery)
    },
  )

  app.post(
    `${one}/deliveries/:delivery/resend`,
    endpoint(manage, {
      operationId: `resend${name}WebhookDelivery`,
      tag: 'Webhooks',
      summary: `Send a delivery of a webhook of ${words} again`,
      description: 'It responds when the message is queued. The message keeps its id.',
      params: DeliveryPath,
      response: { 202: Queued },
    }),
    async (request, reply) => {
      const id = request.params['delivery'] as string
      if (!(await queueAgain(db, await webhookOf(manage, request), id))) throw notFound('delivery not found')
      return reply.code(202).send({ id: Number(id) })
    },
  )

  function webhookOf(guard: Guard<Grant>, request: { params: unknown }): Promise<Webhook> {
    return theWebhook(guard.granted(request), (request.params as { webhook: string }).webhook)
  }

  async function theWebhook(grant: Grant, id: string): Promise<Webhook> {
    const webhook = await findWebhook(db, id, placeOf(grant))
    if (!webhook) throw notFound('webhook not found')
    return webhook
  }
}
