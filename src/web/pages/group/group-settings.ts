import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { findFactors, hasFactor } from '../../../accounts/second-factor/factors.ts'
import { requireFactorOfMembers } from '../../../groups/group-lifecycle.ts'
import { findGroupSettings, type GroupSettings, type VisibleGroup } from '../../../groups/groups.ts'
import { findGroupMember } from '../../../groups/members.ts'
import { readForm } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { managedGroup, mayOnSite, type PagesContext } from '../permit.ts'

const settingsPage = page<{
  group: VisibleGroup
  settings: GroupSettings
  /** Whether the visitor is a member, who can leave. A site administrator may be none. */
  isMember: boolean
  /** Whether the visitor may rename and delete the group. */
  mayRename: boolean
}>('pages/group-settings')

const RuleForm = z.object({ second_factor: z.enum(['required', 'optional']) })

interface Route {
  Params: { group: string }
}

/** `/<group>/-/settings`: the settings of a group, for its admins. */
export async function groupSettingsRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context

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

  app.post<Route>(
    '/:group/-/settings/second-factor',
    signedIn(
      context,
      { form: (request) => settingsUrl(request.params) },
      async ({ session, prove, by }, request, reply) => {
        const { group: name } = request.params
        const group = await managedGroup(db, name, session, 'waiveSecondFactor')
        await prove('waiveSecondFactor')
        const isRequired = readForm(RuleForm, request).second_factor === 'required'
        if (isRequired && !hasFactor(await findFactors(db, session.account.id))) {
          throw new PageError(
            409,
            'Add a second factor to your own account first. Otherwise you would lose your role in this group.',
          )
        }
        await requireFactorOfMembers(db, by, group, isRequired)
        const what = isRequired ? 'requires' : 'does not require'
        leaveNotice(request, reply, config, `${name} ${what} a second factor of its members.`)
        return reply.redirect(settingsUrl(request.params), 303)
      },
    ),
  )
}

function settingsUrl({ group }: Route['Params']): string {
  return `/${group}/-/settings`
}
