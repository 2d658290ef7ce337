import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import type { ArchiveBrowser } from '../../../archives/archive-files.ts'
import { pageOf } from '../../../domain/paging.ts'
import { capitalize } from '../../../events/event-words.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import type { VersionComparer } from '../../../packages/compare-versions.ts'
import { stageRegistryUrl } from '../../../packages/stages/describe-stage.ts'
import { obstacleTo, rejectStage, releaseStage } from '../../../packages/stages/release.ts'
import { orderFields, type ReviewedFields } from '../../../packages/stages/reviewed-fields.ts'
import {
  findStageOf,
  findVersionBefore,
  type ListedStage,
  listStages,
  type Stage,
  stageDays,
} from '../../../packages/tables/staged-versions.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import type { HeavyPages } from '../../network-turns.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { signedIn, type Visit } from '../../visit.ts'
import { type PagesContext, permittedRepository } from '../permit.ts'
import { type Compared, compareShown } from './compared.ts'
import { readingArchive } from './package-view.ts'

const stagesPerPage = 50

const stagesPage = page<{
  repository: VisibleRepository
  stages: ListedStage[]
  stageDays: number
  isContinued: boolean
  next: string | null
}>('pages/stages')

const reviewPage = page<{
  repository: VisibleRepository
  stage: Stage
  /** The Composer repository with the staged version. */
  registryUrl: string
  /** Where the uploader says that the version comes from. */
  source: { url: string; reference: string } | null
  /** The published version that it is compared with. Null for the first one. */
  before: { version: string } | null
  fields: ReviewedFields | null
  /** Everything is added in the first version. Null when an archive is not stored: then nothing is compared. */
  compared: Compared | null
  filePath: string
  /** Why the person cannot release it. Null if possible. */
  obstacle: string | null
  /** Whether another developer must release it, too. */
  needsSecond: boolean
}>('pages/stage')

const StagesQuery = z.object({ after: text })
const ReviewQuery = z.object({ path: text })
const RejectForm = z.object({ reason: text })

interface Route {
  Params: { group: string; name: string; id: string }
}

/**
 * `/<group>/<name>/-/stages`: versions that wait for their release, and `…/<id>`: what a staged version changes, for the
 * developers who release or reject it. Its two forms need a second factor or a passkey of the last five minutes.
 */
export async function stagePageRoutes(
  app: FastifyInstance,
  context: PagesContext & { archives: ArchiveBrowser; comparer: VersionComparer; heavy: HeavyPages },
): Promise<void> {
  const { config, db, changes, comparer, heavy } = context
  const url = '/:group/:name/-/stages'

  app.get<Route>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'stage')
      const { after } = readQuery(StagesQuery, request)
      const { rows: stages, next } = await pageOf(
        (part) => listStages(db, repository.id, part),
        { after, limit: stagesPerPage },
        ({ id }) => id,
      )
      return stagesPage(reply, session, { repository, stages, stageDays, isContinued: after !== '', next })
    }),
  )

  const showReview = signedIn<Route>(context, async ({ session }, request, reply) => {
    const repository = await permittedRepository(db, request.params, session, 'stage')
    const stage = await stageOf(repository, request.params.id)
    const { path: filePath } = readQuery(ReviewQuery, request)
    const before = await findVersionBefore(db, stage)
    const found = await readingArchive(() => compareShown(comparer, before, stage, filePath))
    const compared = found === 'missing' ? null : found
    if (filePath !== '' && compared?.files.length === 0) throw pageNotFound()
    const obstacle = repository.twoPeople ? obstacleTo(stage, session.account.id) : null
    return reviewPage(reply, session, {
      repository,
      stage,
      registryUrl: stageRegistryUrl(config.baseUrl, repository.path, stage),
      source: sourceOf(stage),
      before,
      fields: orderFields(compared?.fields ?? null),
      compared,
      filePath,
      obstacle: obstacle && `${capitalize(obstacle)}.`,
      needsSecond: repository.twoPeople && stage.by.accountId === null && stage.approverId === null,
    })
  })
  app.get<Route>(
    `${url}/:id`,
    heavy<Route>(async (request, reply) => (await showReview(request, reply)) as FastifyReply),
  )

  app.post<Route>(
    `${url}/:id/release`,
    signedIn(context, { form: (request) => stageUrl(request.params) }, async (visit, request, reply) => {
      const { repository, stage, by } = await decisionOf(visit, request.params)
      const { baseUrl } = config
      const outcome = await releaseStage(changes, { stage, by, baseUrl })
      const name = `${stage.packageName} ${stage.version}`
      if (outcome === 'approved') {
        leaveNotice(request, reply, config, `You approved ${name}. Another developer must release it, too.`)
        return reply.redirect(stageUrl(request.params), 303)
      }
      leaveNotice(request, reply, config, `${name} is released.`)
      const query = new URLSearchParams({ version: stage.version })
      return reply.redirect(`/${repository.path}/packages/${stage.packageName}?${query}`, 303)
    }),
  )

  app.post<Route>(
    `${url}/:id/reject`,
    signedIn(context, { form: (request) => stageUrl(request.params) }, async (visit, request, reply) => {
      const { repository, stage, by } = await decisionOf(visit, request.params)
      const { reason } = readForm(RejectForm, request)
      await rejectStage(changes, { stage, by, reason })
      leaveNotice(request, reply, config, `${stage.packageName} ${stage.version} is rejected.`)
      return reply.redirect(`/${repository.path}/-/stages`, 303)
    }),
  )

  /** Returns the stage that somebody decides about, and asks for a second factor. */
  async function decisionOf({ session, by, proveFactor }: Visit, params: Route['Params']) {
    const repository = await permittedRepository(db, params, session, 'decideStage')
    const stage = await stageOf(repository, params.id)
    await proveFactor()
    return { repository, stage, by }
  }

  async function stageOf({ id: repositoryId }: VisibleRepository, id: string): Promise<Stage> {
    const stage = await findStageOf(db, repositoryId, id)
    if (!stage) throw pageNotFound()
    return stage
  }
}

function sourceOf({ metadata }: Stage): { url: string; reference: string } | null {
  const { source } = metadata
  if (typeof source !== 'object' || source === null || Array.isArray(source)) return null
  const { url, reference } = source
  return typeof url === 'string' && typeof reference === 'string' ? { url, reference } : null
}

function stageUrl({ group, name, id }: Route['Params']): string {
  return `/${group}/${name}/-/stages/${id}`
}
