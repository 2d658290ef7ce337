import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { AccountDetails } from '../../../accounts/accounts.ts'
import type { AppContext } from '../../../context.ts'
import { pageOf } from '../../../domain/paging.ts'
import { findVisibleGroup } from '../../../groups/groups.ts'
import { findVisibleRepository } from '../../../groups/repositories.ts'
import { type Choices, changeChoices, findChoices } from '../../../notifications/choices.ts'
import { deliveries, deliveryNames, type Topic, topicNames, topics } from '../../../notifications/topics.ts'
import {
  listWatched,
  listWatchedGroups,
  setWatching,
  setWatchingGroup,
  type WatchedRepository,
} from '../../../notifications/watching.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { ownDetails } from './profile-routes.ts'

const notificationsPage = page<{
  choices: Choices
  topics: typeof topics
  deliveries: typeof deliveries
  about: AccountDetails
  /** Whether svc sends mails. */
  hasMail: boolean
  watchedGroups: { name: string }[]
  /** The name after which the next watched groups come. Null on the last page. */
  nextGroup: string | null
  watched: WatchedRepository[]
  /** The path after which the next watched repositories come. Null on the last page. */
  next: string | null
}>('accounts/notifications')

const url = '/settings/notifications'
const watchedPerPage = 50

const delivery = z.enum(deliveryNames)
const ChoicesForm = z.object({
  ...(Object.fromEntries(topicNames.map((topic) => [topic, delivery])) as Record<Topic, typeof delivery>),
  digest_hour: z.coerce.number().int().min(0).max(23),
})
const WatchForm = z.object({ watch: text, back: text })
const WatchedQuery = z.object({ after: text, after_group: text })

interface Route {
  Params: { group: string; name: string }
}

/** `/settings/notifications`: what a person is told by mail, and how; and the acts that watch a repository or a group. */
export async function notificationRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const { id } = session.account
      const { after, after_group: afterGroup } = readQuery(WatchedQuery, request)
      const groups = await pageOf(
        (part) => listWatchedGroups(db, id, part),
        { after: afterGroup || null, limit: watchedPerPage },
        ({ name }) => name,
      )
      const { rows: watched, next } = await pageOf(
        (part) => listWatched(db, id, part),
        { after: after || null, limit: watchedPerPage },
        ({ path }) => path,
      )
      return notificationsPage(reply, session, {
        choices: await findChoices(db, id),
        topics,
        deliveries,
        about: await ownDetails(context, session),
        hasMail: config.mail !== null,
        watchedGroups: groups.rows,
        nextGroup: groups.next,
        watched,
        next,
      })
    }),
  )

  app.post(
    url,
    signedIn(context, { form: url }, async ({ session }, request, reply) => {
      const { digest_hour: digestHour, ...chosen } = readForm(ChoicesForm, request)
      await changeChoices(context, session.account.id, { ...chosen, digestHour })
      leaveNotice(request, reply, config, 'Your notifications were saved.')
      return reply.redirect(url, 303)
    }),
  )

  app.post<Route>(
    '/:group/:name/-/watch',
    signedIn(
      context,
      { form: ({ params: { group, name } }) => `/${group}/${name}` },
      async ({ session: { account } }, request, reply) => {
        const { watch, back } = readForm(WatchForm, request)
        const repository = await findVisibleRepository(db, request.params, account.id)
        if (!repository) throw pageNotFound()
        const isWatching = watch === 'yes'
        await setWatching(db, account.id, repository.id, isWatching)
        const notice = isWatching
          ? `You watch ${repository.path}. Its releases and advisories come by mail.`
          : `You no longer watch ${repository.path}.`
        leaveNotice(request, reply, config, notice)
        return reply.redirect(back === 'settings' ? url : `/${repository.path}`, 303)
      },
    ),
  )

  app.post<{ Params: { group: string } }>(
    '/:group/-/watch',
    signedIn(
      context,
      { form: ({ params: { group } }) => `/${group}` },
      async ({ session: { account } }, request, reply) => {
        const { watch, back } = readForm(WatchForm, request)
        const group = await findVisibleGroup(db, request.params.group, account.id)
        if (!group) throw pageNotFound()
        const isWatched = watch === 'yes'
        await setWatchingGroup(db, account.id, group.id, isWatched)
        const notice = isWatched
          ? `You watch ${group.name}. Releases and advisories of all its repositories that you may read come by mail.`
          : `You no longer watch ${group.name}.`
        leaveNotice(request, reply, config, notice)
        return reply.redirect(back === 'settings' ? url : `/${group.name}`, 303)
      },
    ),
  )
}
