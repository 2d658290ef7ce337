import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { pageOf } from '../../../domain/paging.ts'
import { Refusal } from '../../../domain/refusal.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { explainVerdict, requireRules, setRetention } from '../../../packages/lifecycle/retention.ts'
import {
  countJudged,
  findRetention,
  type JudgedCounts,
  type JudgedVersion,
  keyOfJudged,
  listJudged,
  maxArchiveDays,
  maxKeptVersions,
  type Retention,
  type RetentionRules,
} from '../../../packages/tables/retention.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { type PagesContext, permittedRepository } from '../permit.ts'

const rowsPerPage = 100

const RulesForm = z.object({ keep_development: text, deleted_archives_days: text })
const PreviewQuery = RulesForm.extend({ act: z.enum(['go', 'keep']).default('go'), after: text })
type SentRules = z.output<typeof RulesForm>

const rulesPage = page<{
  repository: VisibleRepository
  retention: Retention
  form: SentRules
  most: { versions: number; days: number }
  problem: string | null
}>('pages/retention')
const previewPage = page<{
  repository: VisibleRepository
  /** The rules of the preview, as the form sends them. */
  form: SentRules
  rules: RetentionRules
  isStored: boolean
  counts: JudgedCounts
  versions: (JudgedVersion & { why: string })[]
  act: 'go' | 'keep'
  next: string | null
}>('pages/retention-preview')

interface Route {
  Params: { group: string; name: string }
}

/** `/<group>/<name>/-/settings/retention`: the rules. `preview` below it shows what they do now, and saves them. */
export async function retentionPageRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context
  const url = '/:group/:name/-/settings/retention'
  const urlOf = ({ group, name }: Route['Params']) => `/${group}/${name}/-/settings/retention`
  const most = { versions: maxKeptVersions, days: maxArchiveDays }

  app.get<Route>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'manage')
      const retention = await findRetention(db, repository.id)
      return rulesPage(reply, session, {
        repository,
        retention,
        form: formOf(retention),
        most,
        problem: null,
      })
    }),
  )

  app.get<Route>(
    `${url}/preview`,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'manage')
      const { act, after, ...form } = readQuery(PreviewQuery, request)
      const retention = await findRetention(db, repository.id)
      const rules = readRules(form)
      if (typeof rules === 'string')
        return rulesPage(reply.code(400), session, { repository, retention, form, most, problem: rules })
      const { rows, next } = await pageOf(
        (part) => listJudged(db, repository.id, rules, act === 'go', part),
        { after: after || null, limit: rowsPerPage },
        keyOfJudged,
      )
      return previewPage(reply, session, {
        repository,
        form,
        rules,
        isStored:
          rules.keepDevelopment === retention.keepDevelopment &&
          rules.deletedArchivesDays === retention.deletedArchivesDays,
        counts: await countJudged(db, repository.id, rules),
        versions: rows.map((one) => ({ ...one, why: explainVerdict(one) })),
        act,
        next,
      })
    }),
  )

  app.post<Route>(
    url,
    signedIn(
      context,
      { form: ({ params }) => urlOf(params) },
      async ({ session, prove, by }, request, reply) => {
        const repository = await permittedRepository(db, request.params, session, 'setRetention')
        const form = readForm(RulesForm, request)
        const rules = readRules(form)
        if (typeof rules === 'string') {
          const retention = await findRetention(db, repository.id)
          return rulesPage(reply.code(400), session, { repository, retention, form, most, problem: rules })
        }
        await prove('setRetention')
        await setRetention(db, { repositoryId: repository.id, by }, rules)
        leaveNotice(request, reply, config, 'The retention rules were saved.')
        return reply.redirect(urlOf(request.params), 303)
      },
    ),
  )
}

function formOf({ keepDevelopment, deletedArchivesDays }: RetentionRules): SentRules {
  return {
    keep_development: String(keepDevelopment ?? ''),
    deleted_archives_days: String(deletedArchivesDays ?? ''),
  }
}

/** Reads the rules of a form, in which an empty field is a rule that is off. Returns a sentence about a mistake. */
function readRules({ keep_development, deleted_archives_days }: SentRules): RetentionRules | string {
  const numberOf = (value: string) => (value.trim() === '' ? null : Number(value))
  const rules = {
    keepDevelopment: numberOf(keep_development),
    deletedArchivesDays: numberOf(deleted_archives_days),
  }
  try {
    requireRules(rules)
    return rules
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return rules.keepDevelopment !== null && error.errmsg.startsWith('keep_development')
      ? `The number of development versions must be from 1 to ${maxKeptVersions}.`
      : `The number of days must be from 1 to ${maxArchiveDays}.`
  }
}
