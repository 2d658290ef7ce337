import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { pageOf } from '../../../domain/paging.ts'
import type { GroupAct, RepositoryAct, SiteAct } from '../../../domain/permissions.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { rowId } from '../../../domain/row-id.ts'
import type { VisibleGroup } from '../../../groups/groups.ts'
import { EndedMeanwhileError } from '../../../groups/live-principal.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import type { Outbound } from '../../../outbound/outbound.ts'
import {
  type Delivery,
  type DeliveryDetails,
  findDelivery,
  listDeliveries,
  queueAgain,
  queuePing,
} from '../../../webhooks/deliveries.ts'
import { choosableTypes, messageFormats, messageTypes } from '../../../webhooks/message-types.ts'
import {
  addWebhook,
  changeWebhook,
  findWebhook,
  listWebhooks,
  removeWebhook,
  rotateSecret,
  type Webhook,
  type WebhookPlace,
} from '../../../webhooks/webhooks.ts'
import { readForm, readQuery, text, textList } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { managedGroup, permittedRepository } from '../permit.ts'

const rowsPerPage = 50

const ListQuery = z.object({ after: text })
const WebhookForm = z.object({
  url: text,
  extent: z.enum(['all', 'chosen']).default('all'),
  event: textList,
  format: z.enum(messageFormats).default('json'),
})
type SentForm = z.output<typeof WebhookForm>
const emptyForm: SentForm = { url: '', extent: 'all', event: [], format: 'json' }
const EnabledForm = z.object({ enabled: z.enum(['yes', 'no']) })
const ResendForm = z.object({ delivery: rowId })

/** The repository, group or site whose webhooks a page shows. */
interface Place {
  /** The URL of the list. */
  url: string
  /** `acme/php`, `acme`, or `the site`. */
  name: string
  repository: VisibleRepository | null
  group: VisibleGroup | null
  target: WebhookPlace
}

const listPage = page<{
  place: Place
  repository: Place['repository']
  webhooks: Webhook[]
  next: string | null
}>('pages/webhooks')
const formPage = page<{
  place: Place
  repository: Place['repository']
  /** Null for a new one. */
  webhook: Webhook | null
  form: SentForm
  problem: string | null
  types: [string, string][]
}>('pages/webhook-form')
const secretPage = page<{ webhookUrl: string; secret: string; signsFormer: boolean }>('pages/webhook-secret')
const webhookPage = page<{
  place: Place
  repository: Place['repository']
  webhook: Webhook
  deliveries: Delivery[]
  next: string | null
}>('pages/webhook')
const deliveryPage = page<{
  place: Place
  repository: Place['repository']
  webhook: Webhook
  delivery: DeliveryDetails
}>('pages/webhook-delivery')

/** Returns the form with the settings of a webhook. */
function formWith({ url, events, format }: Webhook): SentForm {
  return { url, extent: events ? 'chosen' : 'all', event: events ?? [], format }
}

function settingsOf({ url, extent, event, format }: SentForm) {
  return { url: url.trim(), events: extent === 'all' ? null : event, format }
}

/** Returns what is wrong with a form. Throws other errors. */
function problemOf(error: unknown): string {
  if (!(error instanceof Refusal) || error instanceof EndedMeanwhileError) throw error
  return error.sentence
}

interface Route {
  Params: { group: string; name: string; id: string; delivery: string }
}

/** The context of these pages. */
export interface WebhookPagesContext extends AppContext {
  outbound: Outbound
}

/** `/<group>/-/webhooks` and `/<group>/<name>/-/webhooks`. */
export async function webhookPageRoutes(app: FastifyInstance, context: WebhookPagesContext): Promise<void> {
  const { db } = context
  addPages<RepositoryAct>(app, context, {
    route: '/:group/:name/-/webhooks',
    acts: { manage: 'manage', add: 'addWebhook' },
    async placeOf({ params }, session, act) {
      const repository = await permittedRepository(db, params, session, act)
      const { id: repositoryId, path } = repository
      const target = { groupId: null, repositoryId }
      return { url: `/${path}/-/webhooks`, name: path, repository, group: null, target }
    },
  })
  addPages<GroupAct>(app, context, {
    route: '/:group/-/webhooks',
    acts: { manage: 'manageGroup', add: 'addGroupWebhook' },
    async placeOf({ params }, session, act) {
      const group = await managedGroup(db, params.group, session, act)
      const target = { groupId: group.id, repositoryId: null }
      return { url: `/${group.name}/-/webhooks`, name: group.name, repository: null, group, target }
    },
  })
}

/** `/admin/webhooks`, in the scope of site administrators. */
export async function siteWebhookRoutes(app: FastifyInstance, context: WebhookPagesContext): Promise<void> {
  const target = { groupId: null, repositoryId: null }
  addPages<SiteAct>(app, context, {
    route: '/admin/webhooks',
    acts: { manage: 'manageWebhooks', add: 'manageWebhooks' },
    placeOf: async () => ({
      url: '/admin/webhooks',
      name: 'the site',
      repository: null,
      group: null,
      target,
    }),
  })
}

/** The pages of one kind of place. */
interface Pages<PlaceAct> {
  route: string
  acts: Record<'manage' | 'add', PlaceAct>
  /** Returns the place of a URL. Throws the page of an error when the account may not do the act there. */
  placeOf: (request: FastifyRequest<Route>, session: Session, act: PlaceAct) => Promise<Place>
}

/**
 * Adds the list of a place, the forms that add and change a webhook, the page of one with its deliveries, the page of a delivery, and what
 * people do with them.
 */
function addPages<PlaceAct extends RepositoryAct | GroupAct | SiteAct>(
  app: FastifyInstance,
  context: WebhookPagesContext,
  { route, acts, placeOf }: Pages<PlaceAct>,
): void {
  const { config, db } = context
  const listOf = ({ params }: FastifyRequest<Route>) =>
    route.replace(':group', params.group).replace(':name', params.name)
  const formOf = (request: FastifyRequest<Route>) => `${listOf(request)}/${request.params.id}`

  app.get<Route>(
    route,
    signedIn(context, async ({ session }, request, reply) => {
      const place = await placeOf(request, session, acts.manage)
      const { rows: webhooks, next } = await pageOf(
        (part) => listWebhooks(db, place.target, part),
        { after: readQuery(ListQuery, request).after, limit: rowsPerPage },
        ({ id }) => id,
      )
      return listPage(reply, session, { place, repository: place.repository, webhooks, next })
    }),
  )

  app.get<Route>(
    `${route}/new`,
    signedIn(context, async ({ session }, request, reply) =>
      showForm(
        reply,
        session,
        { place: await placeOf(request, session, acts.add), webhook: null },
        emptyForm,
      ),
    ),
  )

  app.post<Route>(
    `${route}/new`,
    signedIn(
      context,
      { form: (request) => `${listOf(request)}/new` },
      async ({ session, by, prove }, request, reply) => {
        const place = await placeOf(request, session, acts.add)
        const form = readForm(WebhookForm, request)
        await prove(acts.add)
        try {
          const { id, secret } = await addWebhook(context, { place: place.target, by }, settingsOf(form))
          return secretPage(reply, session, { webhookUrl: `${place.url}/${id}`, secret, signsFormer: false })
        } catch (error) {
          const problem = problemOf(error)
          return showForm(reply.code(400), session, { place, webhook: null }, form, problem)
        }
      },
    ),
  )

  app.get<Route>(
    `${route}/:id/edit`,
    signedIn(context, async ({ session }, request, reply) => {
      const place = await placeOf(request, session, acts.add)
      const webhook = await theWebhook(request, place)
      return showForm(reply, session, { place, webhook }, formWith(webhook))
    }),
  )

  app.post<Route>(
    `${route}/:id/edit`,
    signedIn(
      context,
      { form: (request) => `${formOf(request)}/edit` },
      async ({ session, by, prove }, request, reply) => {
        const place = await placeOf(request, session, acts.add)
        const form = readForm(WebhookForm, request)
        await prove(acts.add)
        const webhook = await theWebhook(request, place)
        const about = { id: webhook.id, place: place.target, by }
        const webhookUrl = `${place.url}/${webhook.id}`
        try {
          const changed = await changeWebhook(context, about, settingsOf(form))
          if (!changed) throw pageNotFound()
          const { secret } = changed
          if (secret !== null) return secretPage(reply, session, { webhookUrl, secret, signsFormer: false })
          return goTo(request, reply, webhookUrl, 'The webhook was changed.')
        } catch (error) {
          const problem = problemOf(error)
          return showForm(reply.code(400), session, { place, webhook }, form, problem)
        }
      },
    ),
  )

  app.get<Route>(
    `${route}/:id`,
    signedIn(context, async ({ session }, request, reply) => {
      const { place, webhook } = await webhookOf(request, session)
      const { rows: deliveries, next } = await pageOf(
        (part) => listDeliveries(db, webhook.id, part),
        { after: readQuery(ListQuery, request).after, limit: rowsPerPage },
        (delivery) => delivery.id,
      )
      return webhookPage(reply, session, { place, repository: place.repository, webhook, deliveries, next })
    }),
  )

  app.get<Route>(
    `${route}/:id/deliveries/:delivery`,
    signedIn(context, async ({ session }, request, reply) => {
      const { place, webhook } = await webhookOf(request, session)
      const delivery = await findDelivery(db, webhook.id, request.params.delivery)
      if (!delivery) throw pageNotFound()
      return deliveryPage(reply, session, { place, repository: place.repository, webhook, delivery })
    }),
  )

  app.post<Route>(
    `${route}/:id/ping`,
    signedIn(context, { form: formOf }, async ({ session }, request, reply) => {
      const { place, webhook } = await webhookOf(request, session)
      await queuePing(db, webhook)
      return goTo(request, reply, `${place.url}/${webhook.id}`, 'The test message is on its way.')
    }),
  )

  app.post<Route>(
    `${route}/:id/resend`,
    signedIn(context, { form: formOf }, async ({ session }, request, reply) => {
      const { place, webhook } = await webhookOf(request, session)
      const { delivery } = readForm(ResendForm, request)
      if (!(await queueAgain(db, webhook, delivery))) throw pageNotFound()
      return goTo(request, reply, `${place.url}/${webhook.id}`, 'The message is sent again.')
    }),
  )

  app.post<Route>(
    `${route}/:id/enabled`,
    signedIn(context, { form: formOf }, async ({ session, by, prove }, request, reply) => {
      const place = await placeOf(request, session, acts.add)
      await prove(acts.add)
      const webhook = await theWebhook(request, place)
      const enabled = readForm(EnabledForm, request).enabled === 'yes'
      await changeWebhook(context, { id: webhook.id, place: place.target, by }, { enabled })
      const sentence = enabled ? 'The webhook is enabled.' : 'The webhook is disabled.'
      return goTo(request, reply, `${place.url}/${webhook.id}`, sentence)
    }),
  )

  app.post<Route>(
    `${route}/:id/rotate`,
    signedIn(context, { form: formOf }, async ({ session, by, prove }, request, reply) => {
      const place = await placeOf(request, session, acts.add)
      await prove(acts.add)
      const webhook = await theWebhook(request, place)
      const secret = await rotateSecret(context, { id: webhook.id, place: place.target, by })
      if (secret === null) throw pageNotFound()
      return secretPage(reply, session, {
        webhookUrl: `${place.url}/${webhook.id}`,
        secret,
        signsFormer: true,
      })
    }),
  )

  app.get<Route>(
    `${route}/:id/remove`,
    signedIn(context, async ({ session }, request, reply) => {
      const { place, webhook } = await webhookOf(request, session)
      return confirmationPage(reply, session, {
        title: `Remove the webhook to ${new URL(webhook.url).host}?`,
        explanation: 'It gets no more messages, and its deliveries are removed.',
        action: `${place.url}/${webhook.id}/remove`,
        fields: {},
        button: 'Remove',
        ask: null,
        back: place.url,
      })
    }),
  )

  app.post<Route>(
    `${route}/:id/remove`,
    signedIn(context, { form: formOf }, async ({ session, by }, request, reply) => {
      const { place, webhook } = await webhookOf(request, session)
      await removeWebhook(db, by, { id: webhook.id, place: place.target })
      return goTo(request, reply, place.url, 'The webhook was removed.')
    }),
  )

  async function webhookOf(
    request: FastifyRequest<Route>,
    session: Session,
  ): Promise<{ place: Place; webhook: Webhook }> {
    const place = await placeOf(request, session, acts.manage)
    return { place, webhook: await theWebhook(request, place) }
  }

  async function theWebhook({ params }: FastifyRequest<Route>, { target }: Place): Promise<Webhook> {
    const webhook = await findWebhook(db, params.id, target)
    if (!webhook) throw pageNotFound()
    return webhook
  }

  function showForm(
    reply: FastifyReply,
    session: Session,
    { place, webhook }: { place: Place; webhook: Webhook | null },
    form: SentForm,
    problem: string | null = null,
  ): FastifyReply {
    const types = choosableTypes.map((type): [string, string] => [type, messageTypes[type]])
    return formPage(reply, session, { place, repository: place.repository, webhook, form, problem, types })
  }

  function goTo(request: FastifyRequest, reply: FastifyReply, url: string, notice: string): FastifyReply {
    leaveNotice(request, reply, config, notice)
    return reply.redirect(url, 303)
  }
}
