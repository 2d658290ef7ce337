import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { pageOf } from '../../domain/paging.ts'
import { type AccessibleRepository, listPublicRepositories } from '../../groups/accessible-repositories.ts'
import { findVisibleGroup } from '../../groups/groups.ts'
import {
  addContents,
  listPublicReleases,
  maxCounted,
  type PublicRelease,
  type RepositoryContent,
} from '../../packages/tables/dashboard.ts'
import { readQuery, text } from '../forms.ts'
import { nobody, page } from '../pages.ts'
import { anybody } from '../visit.ts'
import { showGroup } from './group/group.ts'
import type { PagesContext } from './permit.ts'

const repositoriesPerPage = 30
const maxReleases = 10

const explorePage = page<{
  repositories: (AccessibleRepository & { content: RepositoryContent | undefined })[]
  maxCounted: number
  /** Empty on every page but the first. */
  releases: PublicRelease[]
  isContinued: boolean
  /** The cursor of the next page: a path. Null on the last page. */
  next: string | null
}>('pages/explore')

const ExploreQuery = z.object({ after: text })

/**
 * `GET /explore`: the public repositories, and what was published in them last. A group that was called `explore` before
 * this page existed keeps the URL.
 */
export async function exploreRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { db } = context
  app.get(
    '/explore',
    anybody(context, async (session, request, reply) => {
      const accountId = session?.account.id ?? null
      const group = await findVisibleGroup(db, 'explore', accountId)
      if (group) return showGroup(context, session, request, reply, group)
      const { after } = readQuery(ExploreQuery, request)
      const [{ rows, next }, releases] = await Promise.all([
        pageOf(
          (part) => listPublicRepositories(db, accountId, part),
          { after, limit: repositoriesPerPage },
          ({ path }) => path,
        ),
        after === '' ? listPublicReleases(db, maxReleases) : [],
      ])
      return explorePage(reply, session ?? nobody, {
        repositories: await addContents(db, rows),
        maxCounted,
        releases,
        isContinued: after !== '',
        next,
      })
    }),
  )
}
