import * as z from 'zod'
import { describeJudged, describeRetention, setRetention } from '../../packages/lifecycle/retention.ts'
import {
  findRetention,
  keyOfJudged,
  listJudged,
  maxArchiveDays,
  maxKeptVersions,
} from '../../packages/tables/retention.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import { type ApiContext, guardRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const kept = z.int().min(1).max(maxKeptVersions).meta({
  description: 'How many development versions of each package stay: those that changed last. Null for all',
  example: 10,
})
const days = z.int().min(1).max(maxArchiveDays).meta({
  description: 'After how many days the archive of a deleted version is purged. Null for never',
  example: 90,
})
const rules = {
  keep_development: kept.nullable().meta(kept.meta() ?? {}),
  deleted_archives_days: days.nullable().meta(days.meta() ?? {}),
}

const RetentionBody = z
  .object({
    ...rules,
    due_at: Moment.nullable().meta({
      description: 'When the rules are applied next; null when both are off',
    }),
  })
  .meta({ id: 'Retention' })

const RetentionDraft = z.strictObject(rules).meta({ id: 'RetentionDraft' })

const Judged = z
  .object({
    package: z.string().meta({ description: 'Name of the package', example: 'acme/hello' }),
    version: z.string().meta({ description: 'The version', example: 'dev-feature-x' }),
    act: z.enum(['delete', 'purge', 'keep']).meta({ description: 'What the rules do with it now' }),
    reason: z.string().meta({ description: 'Why', example: '12 development versions changed later' }),
    changed_at: Moment.meta({ description: 'When its content changed last' }),
    deleted_at: Moment.nullable().meta({ description: 'When it was deleted; null when it is not' }),
  })
  .meta({ id: 'RetentionVerdict' })

const PreviewQuery = PageQuery.extend({
  act: z.enum(['go', 'keep']).default('go').meta({
    description: '`go`: the versions that the rules delete or purge now; `keep`: those that stay',
  }),
  keep_development: z.coerce.number().pipe(kept).optional().meta({
    description: 'Another rule than that of the repository',
    example: 10,
  }),
  deleted_archives_days: z.coerce.number().pipe(days).optional().meta({
    description: 'Another rule than that of the repository',
    example: 90,
  }),
})

/** The retention rules of a repository: `/api/repositories/<group>/<name>/retention`. */
export async function retentionRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const url = '/repositories/:group/:name/retention'
  const mayRead = guardRepository('readSettings', context)
  const maySet = guardRepository('setRetention', context)

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'getRetention',
      tag: 'Repositories',
      summary: 'Get the retention rules of a repository',
      params: RepositoryPath,
      response: { 200: RetentionBody },
    }),
    async (request) => describeRetention(await findRetention(db, mayRead.granted(request).repositoryId)),
  )

  app.put(
    url,
    endpoint(maySet, {
      operationId: 'setRetention',
      tag: 'Repositories',
      summary: 'Set the retention rules of a repository',
      description: 'A new or stricter rule is applied a day later. Get the preview before.',
      params: RepositoryPath,
      body: RetentionDraft,
      response: { 200: RetentionBody },
    }),
    async (request) => {
      const { keep_development: keepDevelopment, deleted_archives_days: deletedArchivesDays } = request.body
      const set = { keepDevelopment, deletedArchivesDays }
      return describeRetention(await setRetention(db, maySet.granted(request), set))
    },
  )

  app.get(
    `${url}/preview`,
    endpoint(mayRead, {
      operationId: 'previewRetention',
      tag: 'Repositories',
      summary: 'List the versions that retention rules delete or purge now, or keep, and why',
      params: RepositoryPath,
      querystring: PreviewQuery,
      response: { 200: z.array(Judged) },
    }),
    async (request, reply) => {
      const { repositoryId } = mayRead.granted(request)
      const { act, keep_development, deleted_archives_days } = request.query
      const stored = await findRetention(db, repositoryId)
      const judgedBy = {
        keepDevelopment: keep_development ?? stored.keepDevelopment,
        deletedArchivesDays: deleted_archives_days ?? stored.deletedArchivesDays,
      }
      return readPage(
        { request, reply, config },
        (part) => listJudged(db, repositoryId, judgedBy, act === 'go', part),
        keyOfJudged,
        describeJudged,
      )
    },
  )
}
