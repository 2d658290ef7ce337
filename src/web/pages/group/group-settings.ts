import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import { findFactors, hasFactor } from '../../../accounts/second-factor/factors.ts'
import type { Session } from '../../../accounts/sessions.ts'
import { maxGraceDays } from '../../../domain/factor-grace.ts'
import { formatTime } from '../../../domain/formats.ts'
import { pageOf } from '../../../domain/paging.ts'
import {
  countMembersWithoutFactor,
  type FactorChoice,
  listMembersWithoutFactor,
  type MemberWithoutFactor,
  requireFactorOfMembers,
} from '../../../groups/factor-requirement.ts'
import { findGroupSettings, type GroupSettings, type VisibleGroup } from '../../../groups/groups.ts'
import { findGroupMember } from '../../../groups/members.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { managedGroup, mayOnSite, type PagesContext } from '../permit.ts'

const membersPerPage = 100

const settingsPage = page<{
  group: VisibleGroup
  settings: GroupSettings
  /** Whether the visitor is a member, who can leave. A site administrator may be none. */
  isMember: boolean
  /** Whether the visitor may rename and delete the group. */
  mayRename: boolean
}>('pages/group-settings')

const factorPage = page<{
  group: VisibleGroup
  settings: GroupSettings
  /** Whether the visitor has a second factor, and so may require one of others. */
  hasFactor: boolean
  /** The numbers of members of the group and its repositories: all, and those without a second factor. */
  counts: { members: number; withoutFactor: number }
  members: MemberWithoutFactor[]
  next: string | null
  maxGraceDays: number
  /** Whether the site sends mails. */
  sendsMail: boolean
  problem: string | null
}>('pages/group-second-factor')

const FactorQuery = z.object({ after: text })
const RuleForm = z.object({
  second_factor: z.enum(['now', 'later', 'optional']),
  days: text.transform((days) => days.trim()),
})

interface Route {
  Params: { group: string }
}

/**
 * `/<group>/-/settings`: the settings of a group, for its admins. Below it, `second-factor` shows who has none before one
 * is required.
 */
export async function groupSettingsRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context
  const factorUrl = '/:group/-/settings/second-factor'

  app.get<Route>(
    '/:group/-/settings',
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'readGroup')
      const settings = await findGroupSettings(db, group.id)
      if (!settings) throw pageNotFound()
      return settingsPage(reply, session, {
        group,
        settings,
        isMember: (await findGroupMember(db, group.id, session.account.username)) !== null,
        mayRename: mayOnSite(session, 'renameGroup'),
      })
    }),
  )

  app.get<Route>(
    factorUrl,
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'readGroup')
      const { after } = readQuery(FactorQuery, request)
      return showFactors(reply, session, group, { after, problem: null })
    }),
  )

  app.post<Route>(
    factorUrl,
    signedIn(
      context,
      { form: (request) => `/${request.params.group}/-/settings/second-factor` },
      async ({ session, prove, by }, request, reply) => {
        const { group: name } = request.params
        const group = await managedGroup(db, name, session, 'waiveSecondFactor')
        const form = readForm(RuleForm, request)
        const choice = choiceOf(form)
        if (choice === null) {
          const problem = `The grace period must have 1 to ${maxGraceDays} days.`
          return showFactors(reply.code(400), session, group, { after: '', problem })
        }
        if (choice.isRequired && !(await hasOwnFactor(session))) {
          return showFactors(reply.code(409), session, group, { after: '', problem: null })
        }
        await prove('waiveSecondFactor')
        await requireFactorOfMembers(db, by, group, choice)
        const settings = await findGroupSettings(db, group.id)
        leaveNotice(request, reply, config, `${name} ${describeRule(settings)}.`)
        return reply.redirect(`/${name}/-/settings`, 303)
      },
    ),
  )

  async function hasOwnFactor({ account }: Session): Promise<boolean> {
    return hasFactor(await findFactors(db, account.id))
  }

  async function showFactors(
    reply: FastifyReply,
    session: Session,
    group: VisibleGroup,
    { after, problem }: { after: string; problem: string | null },
  ): Promise<FastifyReply> {
    const settings = await findGroupSettings(db, group.id)
    if (!settings) throw pageNotFound()
    const { rows: members, next } = await pageOf(
      (part) => listMembersWithoutFactor(db, group.id, part),
      { after, limit: membersPerPage },
      ({ username }) => username,
    )
    return factorPage(reply, session, {
      group,
      settings,
      hasFactor: await hasOwnFactor(session),
      counts: await countMembersWithoutFactor(db, group.id),
      members,
      next,
      maxGraceDays,
      sendsMail: config.mail !== null,
      problem,
    })
  }
}

/** Returns what a form chooses. Null for a grace period that is not a number of days within the bounds. */
function choiceOf({ second_factor: when, days }: z.output<typeof RuleForm>): FactorChoice | null {
  if (when === 'optional') return { isRequired: false }
  if (when === 'now') return { isRequired: true, graceDays: 0 }
  const graceDays = /^\d{1,3}$/.test(days) ? Number(days) : 0
  return graceDays >= 1 && graceDays <= maxGraceDays ? { isRequired: true, graceDays } : null
}

function describeRule(settings: GroupSettings | null): string {
  if (!settings?.requiresSecondFactor) return 'does not require a second factor of its members'
  const { secondFactorFrom } = settings
  if (secondFactorFrom === null) return 'requires a second factor of its members'
  return `requires a second factor of its members from ${formatTime(secondFactorFrom)} on`
}
