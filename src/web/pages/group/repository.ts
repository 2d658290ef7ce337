import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { findUsedToken, type UsedPersonalToken } from '../../../accounts/personal-tokens.ts'
import type { AppContext } from '../../../context.ts'
import type { Queryable } from '../../../database/database.ts'
import { type ListPart, type Page, pageOf } from '../../../domain/paging.ts'
import { isAtLeast } from '../../../domain/permissions.ts'
import { describeAdmins } from '../../../groups/admins.ts'
import { findVisibleRepository, registryUrl, type VisibleRepository } from '../../../groups/repositories.ts'
import { isWatching } from '../../../notifications/watching.ts'
import { findOwnVersion, type OwnVersion } from '../../../packages/tables/feed-versions.ts'
import {
  type ListedPackage,
  listOfferedPackages,
  listOfferedPackagesBy,
} from '../../../packages/tables/listed-packages.ts'
import { findLastDownload, type LastDownload } from '../../../packages/tables/recorded-downloads.ts'
import { type ListedMirror, listMirrors } from '../../../upstreams/tables/mirrored-packages.ts'
import { readQuery, text } from '../../forms.ts'
import { pageNotFound } from '../../page-error.ts'
import { linkToFeed, nobody, page } from '../../pages.ts'
import { anybody } from '../../visit.ts'

const packagesPerPage = 50
const mirrorsPerPage = 200

const sorts = ['name', 'updated', 'downloads'] as const
type Sort = (typeof sorts)[number]

const RepositoryQuery = z.object({ q: text, sort: text, after: text })

const repositoryPage = page<{
  repository: VisibleRepository
  mayPush: boolean
  /** Null for a visitor without an account, and when svc sends no mails. */
  isWatching: boolean | null
  /** Who the admins are, as words. Null when there is none, and for visitors without a role. */
  admins: string | null
  packages: ListedPackage[]
  /** The first packages of upstreams, and the first names that wait for approval. */
  mirrored: ListedMirror[]
  search: string
  sort: Sort
  sorts: readonly Sort[]
  isContinued: boolean
  /** The cursor of the next page: a name, or the number of packages before it. Null on the last page. */
  next: string | null
  setUp: SetUp
}>('pages/repository')

const setUpPage = page<{
  repository: VisibleRepository
  mayPush: boolean
  setUp: SetUp
  tool: Tool
  tools: typeof tools
  /** A package for the examples, with a stable release. Null when there is none. */
  example: string | null
  /** Null for a visitor without an account. */
  progress: Progress | null
}>('pages/set-up')

/** What a person has done here, so that the page can tell them that it has arrived. */
interface Progress {
  installed: LastDownload | null
  published: OwnVersion | null
  /** The person's token that has reached svc in the last hour. Null without one. */
  used: UsedPersonalToken | null
}

/** The tools on the set-up page, by the value in its URL. */
const tools = {
  composer: 'Composer',
  github: 'GitHub Actions',
  gitlab: 'GitLab CI',
  curl: 'curl',
  netrc: 'netrc',
} as const
type Tool = keyof typeof tools

const SetUpQuery = z.object({ tool: text })

/** The values in the commands on a page. */
export interface SetUp {
  /** {registry_url} */
  registryUrl: string
  /** Composer stores credentials by host and port. */
  host: string
  /** netrc stores credentials by host only. */
  hostname: string
  isHttps: boolean
}

interface Route {
  Params: { group: string; name: string }
}

/**
 * `/<group>/<name>`: a repository's packages, and how to use its registry (CONTRACT 4.4, SPEC 4.5, 4.6).
 * `/<group>/<name>/-/setup`: the same for CI systems, curl and netrc.
 */
export async function repositoryPageRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get<Route>(
    '/:group/:name',
    anybody(context, async (session, request, reply) => {
      const repository = await findVisibleRepository(db, request.params, session?.account.id ?? null)
      if (!repository) throw pageNotFound()
      const query = readQuery(RepositoryQuery, request)
      const search = query.q.trim()
      const sort = sorts.find((one) => one === query.sort) ?? 'name'
      const { rows: packages, next } = await readPackages(db, repository.id, search, sort, query.after)
      const mirrored = await listMirrors(db, repository.id, { search, after: null, limit: mirrorsPerPage })
      linkToFeed(reply, `/${repository.path}/-/feed.atom`)
      return repositoryPage(reply, session ?? nobody, {
        repository,
        mirrored,
        admins: repository.role && (await describeAdmins(db, { repositoryId: repository.id })),
        mayPush: isAtLeast(repository.role, 'developer'),
        isWatching:
          session && config.mail !== null ? await isWatching(db, session.account.id, repository.id) : null,
        packages,
        next,
        search,
        sort,
        sorts,
        isContinued: query.after !== '',
        setUp: setUpOf(config.baseUrl, repository.path),
      })
    }),
  )

  app.get<Route>(
    '/:group/:name/-/setup',
    anybody(context, async (session, request, reply) => {
      const repository = await findVisibleRepository(db, request.params, session?.account.id ?? null)
      if (!repository) throw pageNotFound()
      const { tool: asked } = readQuery(SetUpQuery, request)
      const tool = (Object.keys(tools) as Tool[]).find((one) => one === asked) ?? 'composer'
      const newest = await listOfferedPackagesBy(db, 'updated', repository.id, '', { after: null, limit: 20 })
      return setUpPage(reply, session ?? nobody, {
        repository,
        mayPush: isAtLeast(repository.role, 'developer'),
        setUp: setUpOf(config.baseUrl, repository.path),
        tool,
        tools,
        // Composer requires no pre-release without its version.
        example: newest.find(({ isLatestStable }) => isLatestStable)?.name ?? null,
        progress: session && (await readProgress(db, repository, session.account.id)),
      })
    }),
  )
}

async function readProgress(
  db: Queryable,
  { id: repositoryId, visibility }: VisibleRepository,
  accountId: string,
): Promise<Progress> {
  return {
    installed: await findLastDownload(db, { repositoryId, accountId, isPublic: visibility === 'public' }),
    published: await findOwnVersion(db, repositoryId, accountId),
    used: await findUsedToken(db, accountId, repositoryId),
  }
}

async function readPackages(
  db: Queryable,
  repositoryId: string,
  search: string,
  sort: Sort,
  after: string,
): Promise<Page<ListedPackage>> {
  const wanted = { after, limit: packagesPerPage }
  if (sort === 'name') {
    const list = (part: ListPart) => listOfferedPackages(db, repositoryId, search, part)
    return pageOf(list, wanted, ({ name }) => name)
  }
  const list = (part: ListPart) => listOfferedPackagesBy(db, sort, repositoryId, search, part)
  return pageOf(list, wanted, ({ place }) => place)
}

/** Returns the values in a repository's commands. They contain the public URL of svc. */
function setUpOf(baseUrl: string, path: string): SetUp {
  const { host, hostname, protocol } = new URL(baseUrl)
  return { registryUrl: registryUrl(baseUrl, path), host, hostname, isHttps: protocol === 'https:' }
}
