import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { readQuery, text } from '../../http/forms.ts'
import { pageNotFound } from '../../http/page-error.ts'
import { page } from '../../http/pages.ts'
import { findGroup, type Group, type ListedGroup, listGroups } from '../../repositories/groups.ts'
import { type CountedRepository, listCountedRepositories } from '../../repositories/repositories.ts'
import type { AdminContext } from './administrator.ts'

const rowsPerPage = 50

const GroupsQuery = z.object({ group: text, after: text })

const groupsPage = page<{
  groups: ListedGroup[]
  isContinued: boolean
  /** The name that the next page starts after; null on the last one. */
  next: string | null
}>('admin/groups')
const groupPage = page<{
  group: Group
  repositories: CountedRepository[]
  isContinued: boolean
  next: string | null
}>('admin/group')

/** `/admin/groups`: all groups with counts; with `?group=`, the repositories of one. */
export async function adminGroupRoutes(app: FastifyInstance, { db, sessionOf }: AdminContext): Promise<void> {
  app.get('/admin/groups', async (request, reply) => {
    const { group: name, after } = readQuery(GroupsQuery, request)
    const part = { after, limit: rowsPerPage + 1 }
    const isContinued = after !== ''
    if (name === '') {
      const found = await listGroups(db, part)
      const groups = found.slice(0, rowsPerPage)
      const next = found.length > rowsPerPage ? (groups.at(-1)?.name ?? null) : null
      return groupsPage(reply, sessionOf(request), { groups, isContinued, next })
    }
    const group = await findGroup(db, name)
    if (!group) throw pageNotFound()
    const found = await listCountedRepositories(db, group.id, part)
    const repositories = found.slice(0, rowsPerPage)
    const next = found.length > rowsPerPage ? (repositories.at(-1)?.path ?? null) : null
    return groupPage(reply, sessionOf(request), { group, repositories, isContinued, next })
  })
}
