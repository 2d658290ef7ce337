import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import {
  listEvents,
  type RegistryAction,
  type RegistryEvent,
  type SeenEvent,
} from '../../../packages/tables/events.ts'
import { readQuery, text } from '../../forms.ts'
import { page } from '../../pages.ts'
import { readSession, redirectToSignIn } from '../../visitor.ts'
import type { PagesContext } from '../permit.ts'
import { permittedRepository } from '../permit.ts'

const eventsPerPage = 50

/** An event with its texts. */
export interface ShownRegistryEvent extends SeenEvent {
  sentence: string
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
  app.get<{ Params: { group: string; name: string } }>(url, async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply)
    const repository = await permittedRepository(context.db, request.params, session, 'readSettings')
    const { after } = readQuery(ActivityQuery, request)
    const part = { after, limit: eventsPerPage + 1 }
    const reader = {
      accountId: session.account.id,
      resourceScope: 'all',
      tokenKind: null,
      tokenId: null,
    } as const
    const found = await listEvents(context.db, repository.id, part, reader)
    const events = found.slice(0, eventsPerPage)
    return activityPage(reply, session, {
      repository,
      events: events.map(showRegistryEvent),
      isContinued: after !== '',
      next: found.length > eventsPerPage ? (events.at(-1)?.id ?? null) : null,
    })
  })
}

/** The texts of actions whose name alone is unclear. */
const sentences: Partial<Record<RegistryAction, string>> = {
  publish: 'published',
  delete: 'deleted',
  restore: 'restored',
  purge: 'purged',
  abandon: 'marked as abandoned',
  unabandon: 'marked as maintained',
  quarantine: 'quarantined',
  release: 'released from quarantine',
  advise: 'published an advisory for',
  withdraw: 'withdrew an advisory for',
  'set-member': 'gave a role in this repository',
  'remove-member': 'took away a role in this repository',
  'set-group-member': 'gave a role in the group',
  'remove-group-member': 'took away a role in the group',
  'create-repository': 'created the repository',
  'delete-repository': 'deleted the repository',
  'restore-repository': 'restored the repository',
  'change-repository': 'changed the settings',
  'rename-repository': 'renamed the repository',
  'create-group': 'created the group',
  'rename-group': 'renamed the group',
  'set-group': 'changed the settings of the group',
  import: 'imported',
  'add-upstream': 'added the upstream',
  'set-upstream': 'changed the upstream',
  'remove-upstream': 'removed the upstream',
  'claim-vendor': 'claimed the vendor',
  'release-vendor': 'released the vendor',
  'request-package': 'requested the approval of',
  'approve-package': 'approved',
  'mirror-package': 'mirrored for the first time',
  'drop-versions': 'the upstream no longer has versions of',
  'upstream-gone': 'the upstream no longer has',
  'archive-alarm': 'saw that an archive has changed',
  'accept-archive': 'accepted the new bytes of an archive',
  'contest-package': 'saw that another upstream has, too,',
  'decide-package': 'decided which upstream serves',
  'create-deploy-token': 'created a deploy token',
  'revoke-deploy-token': 'revoked a deploy token',
}

/** The actions on packages from upstreams. Such a package has no page, but a place in the list of upstreams. */
const upstreamActions: readonly RegistryAction[] = [
  'request-package',
  'approve-package',
  'mirror-package',
  'drop-versions',
  'upstream-gone',
  'archive-alarm',
  'accept-archive',
  'contest-package',
  'decide-package',
]

function packagePathOf({ action, packageName }: SeenEvent): string | null {
  if (packageName === null) return null
  return upstreamActions.includes(action)
    ? `/-/upstreams?${new URLSearchParams({ q: packageName })}`
    : `/packages/${packageName}`
}

/** Adds the texts of an event. The name of a personal access token is for the account that has it. */
export function showRegistryEvent(event: SeenEvent): ShownRegistryEvent {
  const sentence = describeRegistryEvent(event)
  return { ...event, sentence, packagePath: packagePathOf(event), means: describeMeans(event) }
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

/** Describes an event, such as `published` or `gave a role in the group: ann is admin`. */
export function describeRegistryEvent({
  action,
  details,
}: Pick<RegistryEvent, 'action' | 'details'>): string {
  const said = sentences[action] ?? action.replaceAll('-', ' ')
  const { username, role, reason, from, to, title, name, upstream, vendor, alarm } = details as Partial<
    Record<string, string>
  >
  if (username) return `${said}: ${username}${role ? ` is ${role}` : ''}`
  if (name && action.endsWith('deploy-token')) return `${said}: ${name}`
  if (upstream && action.endsWith('-upstream')) return `${said} ${upstream}`
  if (vendor) return `${said} ${vendor}`
  if (from && to) return `${said}: ${from} is now ${to}`
  if (reason) return `${said} (${reason})`
  if (alarm) return `${said} (the alarm was: ${alarm})`
  return title ? `${said} (${title})` : said
}
