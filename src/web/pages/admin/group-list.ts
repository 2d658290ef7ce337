import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import { formatCount } from '../../../domain/formats.ts'
import { pageOf } from '../../../domain/paging.ts'
import { type Visibility, visibilities } from '../../../domain/permissions.ts'
import { changeGroupName, deleteGroup } from '../../../groups/group-lifecycle.ts'
import { findGroup, type Group, type ListedGroup, listGroups } from '../../../groups/groups.ts'
import {
  type CountedRepository,
  countRepositories,
  listRepositories,
  type RepositoryCounts,
} from '../../../groups/repositories.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { pageNotFound } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { type AdminContext, goOn, orProblem } from './administrator.ts'

const rowsPerPage = 50

const GroupsQuery = z.object({ group: text, q: text, after: text })
const RepositoriesQuery = z.object({ q: text, visibility: z.enum(visibilities).optional(), after: text })
const trimmed = text.transform((value) => value.trim())
const RenameForm = z.object({ group: text, name: trimmed })
const DeleteForm = z.object({ group: text, confirmed: trimmed, with_repositories: text })

const groupsPage = page<{
  groups: ListedGroup[]
  search: string
  isContinued: boolean
  /** The cursor of the next page: a name. Null on the last page. */
  next: string | null
}>('admin/groups')
const repositoriesPage = page<{
  repositories: CountedRepository[]
  counts: RepositoryCounts
  search: string
  /** Null for all repositories. */
  visibility: Visibility | null
  isContinued: boolean
  /** The cursor of the next page: a path. Null on the last page. */
  next: string | null
}>('admin/repositories')
const groupPage = page<{
  group: Group
  repositories: CountedRepository[]
  isContinued: boolean
  next: string | null
}>('admin/group')
/** A form of a group, and why it was rejected. */
interface GroupForm {
  group: Group
  problem: string | null
}
const renamePage = page<GroupForm & { name: string }>('admin/rename-group')
const deletePage = page<GroupForm>('admin/delete-group')

/**
 * `/admin/groups` lists all groups. With `?group=` it shows one with its repositories, and `rename` and `delete` below it
 * have a form each. `/admin/repositories` lists all repositories. Site administrators are admins of each, and change it
 * on its pages.
 */
export async function adminGroupRoutes(app: FastifyInstance, context: AdminContext): Promise<void> {
  const { db, byOf, sessionOf } = context

  app.get('/admin/groups', async (request, reply) => {
    const { group: name, q, after } = readQuery(GroupsQuery, request)
    if (name !== '') return showGroup(reply, await theGroup(name), after)
    const search = q.trim().slice(0, 64)
    const { rows: groups, next } = await pageOf(
      (part) => listGroups(db, part, search),
      { after, limit: rowsPerPage },
      ({ name }) => name,
    )
    return groupsPage(reply, sessionOf(request), { groups, search, isContinued: after !== '', next })
  })

  app.get('/admin/repositories', async (request, reply) => {
    const { q, visibility = null, after } = readQuery(RepositoriesQuery, request)
    const search = q.trim().slice(0, 200)
    const { rows: repositories, next } = await pageOf(
      (part) => listRepositories(db, { search, visibility }, part),
      { after, limit: rowsPerPage },
      ({ path }) => path,
    )
    return repositoriesPage(reply, sessionOf(request), {
      repositories,
      counts: await countRepositories(db),
      search,
      visibility,
      isContinued: after !== '',
      next,
    })
  })

  app.get('/admin/groups/rename', async (request, reply) => {
    const group = await theGroup(readQuery(GroupsQuery, request).group)
    return renamePage(reply, sessionOf(request), { group, name: group.name, problem: null })
  })

  app.post('/admin/groups/rename', async (request, reply) => {
    const { group: name, name: newName } = readForm(RenameForm, request)
    const group = await theGroup(name)
    const by = byOf(request)
    const changed = await orProblem(() => changeGroupName(db, by, group, newName))
    if (typeof changed === 'string') {
      return renamePage(reply.code(400), sessionOf(request), { group, name: newName, problem: changed })
    }
    const sentence = `The group ${name} is now ${newName}. Its documents are rendered again in the background.`
    return goOn(context, reply, groupUrl(newName), sentence)
  })

  app.get('/admin/groups/delete', async (request, reply) => {
    const group = await theGroup(readQuery(GroupsQuery, request).group)
    return deletePage(reply, sessionOf(request), { group, problem: null })
  })

  app.post('/admin/groups/delete', async (request, reply) => {
    const { group: name, confirmed, with_repositories } = readForm(DeleteForm, request)
    const group = await theGroup(name)
    const refuse = (status: number, problem: string) =>
      deletePage(reply.code(status), sessionOf(request), { group, problem })
    if (confirmed !== name) return refuse(400, `Nothing was deleted: type ${name} to delete it.`)
    const by = byOf(request)
    const withRepositories = with_repositories !== ''
    const { isDeleted, repositories } = await deleteGroup(db, by, group, { withRepositories })
    if (!isDeleted) {
      const count = formatCount(repositories.length, 'repository', 'repositories')
      return refuse(
        409,
        `Nothing was deleted: the group has ${count}, those that can be restored included. Tick the box to delete them for good.`,
      )
    }
    return goOn(context, reply, '/admin/groups', `The group ${name} is deleted.`)
  })

  async function theGroup(name: string): Promise<Group> {
    const group = await findGroup(db, name)
    if (!group) throw pageNotFound()
    return group
  }

  async function showGroup(reply: FastifyReply, group: Group, after: string): Promise<FastifyReply> {
    const { rows: repositories, next } = await pageOf(
      (part) => listRepositories(db, { groupId: group.id }, part),
      { after, limit: rowsPerPage },
      ({ path }) => path,
    )
    const isContinued = after !== ''
    return groupPage(reply, sessionOf(reply.request), { group, repositories, isContinued, next })
  }
}

function groupUrl(name: string): string {
  return `/admin/groups?${new URLSearchParams({ group: name })}`
}
