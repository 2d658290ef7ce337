import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import type { GroupAct } from '../../../domain/permissions.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { accountReader, listRepositoriesOfGroup } from '../../../groups/accessible-repositories.ts'
import type { VisibleGroup } from '../../../groups/groups.ts'
import { EndedMeanwhileError } from '../../../groups/live-principal.ts'
import { registryUrl } from '../../../groups/repositories.ts'
import {
  addPolicyRule,
  type BrokenProjects,
  changePolicyRule,
  checkPolicyRule,
  findPolicyRule,
  listPolicyRules,
  maxPolicyBroken,
  maxPolicyReason,
  maxPolicyRules,
  type PolicyDraft,
  removePolicyRule,
  type StoredPolicyRule,
} from '../../../projects/policies.ts'
import { policyKinds } from '../../../projects/policy.ts'
import { readForm, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { managedGroup, mayInGroup, type PagesContext } from '../permit.ts'

const RuleForm = z.object({
  kind: z.enum(policyKinds).default('packages'),
  patterns: text,
  reason: text,
  // The button that only says what the rule would deny.
  check: text,
})
type SentForm = z.output<typeof RuleForm>
const emptyForm: SentForm = { kind: 'packages', patterns: '', reason: '', check: '' }

const listPage = page<{
  group: VisibleGroup
  rules: StoredPolicyRule[]
  mayManage: boolean
  policyUrl: string
}>('pages/policies')

const rulePage = page<{ group: VisibleGroup; rule: StoredPolicyRule; mayManage: boolean }>('pages/policy')

const formPage = page<{
  group: VisibleGroup
  /** The rule that is edited. Null for a new one. */
  rule: StoredPolicyRule | null
  form: SentForm
  problem: string | null
  found: BrokenProjects | null
  maxCounted: number
  maxReason: number
}>('pages/policy-form')

interface Route {
  Params: { group: string; id: string }
}

/**
 * `/<group>/-/policies`: the rules about what the projects of a group may install. Members read them, and admins change them. The
 * form also says what a rule would deny of the lock files.
 */
export async function policyPageRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context
  const url = '/:group/-/policies'
  const listOf = ({ name }: Pick<VisibleGroup, 'name'>) => `/${name}/-/policies`

  app.get<Route>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'readPolicies')
      const [repository] = await listRepositoriesOfGroup(db, accountReader(session.account.id), group.name, {
        after: null,
        limit: 1,
      })
      return listPage(reply, session, {
        group,
        rules: await listPolicyRules(db, group.id, { after: null, limit: maxPolicyRules }),
        mayManage: mayInGroup(group, session, 'managePolicies'),
        policyUrl: `${registryUrl(config.baseUrl, repository?.path ?? `${group.name}/php`)}policy/denied`,
      })
    }),
  )

  app.get<Route>(
    `${url}/new`,
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'managePolicies')
      return showForm(reply, session, { group, rule: null }, emptyForm)
    }),
  )

  app.post<Route>(
    `${url}/new`,
    signedIn(
      context,
      { form: ({ params }) => `/${params.group}/-/policies/new` },
      async ({ session, by, prove }, request, reply) => {
        const group = await managedGroup(db, request.params.group, session, 'managePolicies')
        const form = readForm(RuleForm, request)
        if (form.check !== '') return check(reply, session, { group, rule: null }, form)
        await prove('managePolicies')
        return orForm(reply, session, { group, rule: null }, form, async () => {
          await addPolicyRule(db, { groupId: group.id, by }, draftOf(form))
          return goTo(request, reply, listOf(group), 'The rule was added.')
        })
      },
    ),
  )

  app.get<Route>(
    `${url}/:id`,
    signedIn(context, async ({ session }, request, reply) => {
      const { group, rule } = await ruleOf(request, session, 'readPolicies')
      return rulePage(reply, session, {
        group,
        rule,
        mayManage: mayInGroup(group, session, 'managePolicies'),
      })
    }),
  )

  app.get<Route>(
    `${url}/:id/edit`,
    signedIn(context, async ({ session }, request, reply) => {
      const { group, rule } = await ruleOf(request, session, 'managePolicies')
      const form = { ...emptyForm, ...rule, patterns: rule.patterns.join('\n') }
      return showForm(reply, session, { group, rule }, form)
    }),
  )

  app.post<Route>(
    `${url}/:id/edit`,
    signedIn(
      context,
      { form: ({ params }) => `/${params.group}/-/policies/${params.id}/edit` },
      async ({ session, by, prove }, request, reply) => {
        await managedGroup(db, request.params.group, session, 'managePolicies')
        const sent = readForm(RuleForm, request)
        if (sent.check === '') await prove('managePolicies')
        const { group, rule } = await ruleOf(request, session, 'managePolicies')
        const form = { ...sent, kind: rule.kind }
        if (form.check !== '') return check(reply, session, { group, rule }, form)
        return orForm(reply, session, { group, rule }, form, async () => {
          const about = { groupId: group.id, id: rule.id, by }
          if (!(await changePolicyRule(db, about, draftOf(form)))) throw pageNotFound()
          return goTo(request, reply, listOf(group), 'The rule was changed.')
        })
      },
    ),
  )

  app.get<Route>(
    `${url}/:id/remove`,
    signedIn(context, async ({ session }, request, reply) => {
      const { group, rule } = await ruleOf(request, session, 'managePolicies')
      return confirmationPage(reply, session, {
        title: 'Remove this rule?',
        explanation: `Composer installs again what only this rule denies: ${rule.reason}`,
        action: `${listOf(group)}/${rule.id}/remove`,
        fields: {},
        button: 'Remove',
        ask: null,
        back: listOf(group),
      })
    }),
  )

  app.post<Route>(
    `${url}/:id/remove`,
    signedIn(
      context,
      { form: ({ params }) => `/${params.group}/-/policies/${params.id}/remove` },
      async ({ session, by, prove }, request, reply) => {
        const group = await managedGroup(db, request.params.group, session, 'managePolicies')
        await prove('managePolicies')
        const { id } = request.params
        if (!(await removePolicyRule(db, { groupId: group.id, id, by }))) throw pageNotFound()
        return goTo(request, reply, listOf(group), 'The rule was removed.')
      },
    ),
  )

  async function ruleOf(
    { params }: FastifyRequest<Route>,
    session: Session,
    act: GroupAct,
  ): Promise<{ group: VisibleGroup; rule: StoredPolicyRule }> {
    const group = await managedGroup(db, params.group, session, act)
    const rule = await findPolicyRule(db, group.id, params.id)
    if (!rule) throw pageNotFound()
    return { group, rule }
  }

  /** Shows what the rule would deny, below its form. */
  function check(
    reply: FastifyReply,
    session: Session,
    about: { group: VisibleGroup; rule: StoredPolicyRule | null },
    form: SentForm,
  ): Promise<FastifyReply> {
    return orForm(reply, session, about, form, async () =>
      showForm(reply, session, about, form, {
        found: await checkPolicyRule(db, about.group.id, draftOf(form)),
      }),
    )
  }

  /** Does something with a form, or shows it again with the sentence of the refusal. */
  async function orForm(
    reply: FastifyReply,
    session: Session,
    about: { group: VisibleGroup; rule: StoredPolicyRule | null },
    form: SentForm,
    work: () => Promise<FastifyReply>,
  ): Promise<FastifyReply> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof Refusal) || error instanceof EndedMeanwhileError) throw error
      return showForm(reply.code(400), session, about, form, { problem: error.sentence })
    }
  }

  function showForm(
    reply: FastifyReply,
    session: Session,
    about: { group: VisibleGroup; rule: StoredPolicyRule | null },
    form: SentForm,
    { problem = null, found = null }: { problem?: string | null; found?: BrokenProjects | null } = {},
  ): FastifyReply {
    return formPage(reply, session, {
      ...about,
      form,
      problem,
      found,
      maxCounted: maxPolicyBroken,
      maxReason: maxPolicyReason,
    })
  }

  function goTo(request: FastifyRequest, reply: FastifyReply, to: string, notice: string): FastifyReply {
    leaveNotice(request, reply, config, notice)
    return reply.redirect(to, 303)
  }
}

/** Reads one pattern per line. */
function draftOf({ kind, patterns, reason }: SentForm): PolicyDraft {
  return { kind, patterns: patterns.split('\n'), reason }
}
