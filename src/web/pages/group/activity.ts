import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { pageOf } from '../../../domain/paging.ts'
import { describeEvent, type EventWords } from '../../../events/event-words.ts'
import { listEvents, type SeenEvent } from '../../../events/registry-events.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { readQuery, text } from '../../forms.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import type { PagesContext } from '../permit.ts'
import { permittedRepository } from '../permit.ts'

const eventsPerPage = 50

/** An event with its texts. */
export interface ShownRegistryEvent extends SeenEvent, EventWords {
  /** The URL of the package below that of the repository. Null for an event of the whole repository. */
  packagePath: string | null
  /** How the change was made. Empty for the command line. */
  means: string
}

const activityPage = page<{
  repository: VisibleRepository
  events: ShownRegistryEvent[]
  isContinued: boolean
  /** The cursor of the next page: an event id. Null on the last page. */
  next: string | null
}>('pages/activity')

const ActivityQuery = z.object({ after: text })

/** `GET /<group>/<name>/-/activity`: what was done in a repository, latest first. */
export async function activityRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const url = '/:group/:name/-/activity'
  app.get<{ Params: { group: string; name: string } }>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(context.db, request.params, session, 'readSettings')
      const { after } = readQuery(ActivityQuery, request)
      const reader = {
        accountId: session.account.id,
        resourceScope: 'all',
        tokenKind: null,
        tokenId: null,
      } as const
      const { rows: events, next } = await pageOf(
        (part) => listEvents(context.db, repository.id, part, reader),
        { after, limit: eventsPerPage },
        ({ id }) => id,
      )
      return activityPage(reply, session, {
        repository,
        events: events.map(showRegistryEvent),
        isContinued: after !== '',
        next,
      })
    }),
  )
}

function packagePathOf({ packageName }: SeenEvent): string | null {
  return packageName === null ? null : `/packages/${packageName}`
}

/** Adds the texts of an event. The name of a personal access token is for the account that has it. */
export function showRegistryEvent(event: SeenEvent): ShownRegistryEvent {
  return { ...event, ...describeEvent(event), packagePath: packagePathOf(event), means: describeMeans(event) }
}

function describeMeans({ tokenKind, ownTokenName, username }: SeenEvent): string {
  if (tokenKind === null) return username ? 'in the browser' : ''
  if (ownTokenName !== null) return `with your personal access token “${ownTokenName}”`
  return {
    access: 'with an access token of an application',
    personal: 'with a personal access token',
    // Its name is there instead of a username.
    deploy: 'with a deploy token',
  }[tokenKind]
}
