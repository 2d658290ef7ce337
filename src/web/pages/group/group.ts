import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import type { GroupBytes } from '../../../archives/tables/archives.ts'
import { pageOf } from '../../../domain/paging.ts'
import { isAtLeast } from '../../../domain/permissions.ts'
import {
  type AccessibleRepository,
  accountReader,
  listRepositoriesOfGroup,
} from '../../../groups/accessible-repositories.ts'
import { describeAdmins } from '../../../groups/admins.ts'
import { type DeletedRepository, listDeletedRepositories } from '../../../groups/deleted-repositories.ts'
import { restoreRepository } from '../../../groups/group-lifecycle.ts'
import { findVisibleGroup, type VisibleGroup } from '../../../groups/groups.ts'
import { findGroupMember } from '../../../groups/members.ts'
import { isWatchingGroup } from '../../../notifications/watching.ts'
import { addContents, maxCounted, type RepositoryContent } from '../../../packages/tables/dashboard.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { nobody, page } from '../../pages.ts'
import { anybody, signedIn } from '../../visit.ts'
import { managedGroup, type PagesContext } from '../permit.ts'

const repositoriesPerPage = 50
/** The maximum number of deleted repositories on the page. The others are in the API. */
const maxDeleted = 100

const groupPage = page<{
  group: VisibleGroup
  isAdmin: boolean
  /** Who the admins are, as words. Null when there is none, and for visitors without a role on the group. */
  admins: string | null
  /** Null for visitors who are not signed in, and on a site without mails. */
  isWatching: boolean | null
  /** Whether the visitor is a member of the group, and can leave it. */
  isMember: boolean
  /** The bytes of its archives and their maximum, null for none. Null for visitors without a role on the group. */
  storage: (GroupBytes & { max: number | null }) | null
  repositories: (AccessibleRepository & { content: RepositoryContent | undefined })[]
  /** Those that can be restored. Empty for visitors who may not restore them. */
  deleted: DeletedRepository[]
  maxCounted: number
  isContinued: boolean
  /** The cursor of the next page: a name. Null on the last page. */
  next: string | null
}>('pages/group')

const GroupQuery = z.object({ after: text })
const RestoreForm = z.object({ name: text })

/** `/<group>`: the repositories of a group that the visitor may see. Admins restore deleted ones. */
export async function groupPageRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context

  app.get<{ Params: { group: string } }>(
    '/:group',
    anybody(context, async (session, request, reply) => {
      const group = await findVisibleGroup(db, request.params.group, session?.account.id ?? null)
      if (!group) throw pageNotFound()
      return showGroup(context, session, request, reply, group)
    }),
  )

  app.post<{ Params: { group: string } }>(
    '/:group/-/restore',
    signedIn(
      context,
      { form: (request) => `/${request.params.group}` },
      async ({ session, by }, request, reply) => {
        const group = await managedGroup(db, request.params.group, session, 'restoreRepository')
        const { name } = readForm(RestoreForm, request)
        const path = await restoreRepository(db, by, group, name)
        leaveNotice(request, reply, config, `Repository ${path} restored.`)
        return reply.redirect(`/${path}`, 303)
      },
    ),
  )
}

/** Shows the page of a group that the visitor may see. */
export async function showGroup(
  { config, db, room }: PagesContext,
  session: Session | null,
  request: FastifyRequest,
  reply: FastifyReply,
  group: VisibleGroup,
): Promise<FastifyReply> {
  const { after } = readQuery(GroupQuery, request)
  const { rows: repositories, next } = await pageOf(
    (part) => listRepositoriesOfGroup(db, accountReader(session?.account.id ?? null), group.name, part),
    { after, limit: repositoriesPerPage },
    ({ path }) => path.slice(group.name.length + 1),
  )
  const isAdmin = isAtLeast(group.role, 'admin')
  return groupPage(reply, session ?? nobody, {
    group,
    isAdmin,
    admins: group.role && (await describeAdmins(db, { groupId: group.id })),
    isWatching:
      session && config.mail !== null ? await isWatchingGroup(db, session.account.id, group.id) : null,
    isMember: session !== null && (await findGroupMember(db, group.id, session.account.username)) !== null,
    deleted: isAdmin ? await listDeletedRepositories(db, group.id, { after: null, limit: maxDeleted }) : [],
    storage: group.role && { ...(await room.bytesOf(group.id)), max: config.storage.groupBytes },
    repositories: await addContents(db, repositories),
    maxCounted,
    isContinued: after !== '',
    next,
  })
}
