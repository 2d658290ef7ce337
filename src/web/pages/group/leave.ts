import type { FastifyInstance } from 'fastify'
import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { findGroup, type Group } from '../../../groups/groups.ts'
import { findGroupMember, type GroupMember } from '../../../groups/members.ts'
import { changeMember } from '../../../groups/membership.ts'
import { leaveNotice } from '../../notice.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { confirmationPage } from '../../pages.ts'
import { signedIn } from '../../visit.ts'

interface Route {
  Params: { group: string }
}

/**
 * `/<group>/-/leave`: a member gives up the own role on a group. It is also open to a person who must set up a second
 * factor, who may leave the group that requires it instead.
 */
export async function leaveGroupRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context
  const url = '/:group/-/leave'

  app.get<Route>(
    url,
    signedIn(context, { mayLackFactor: true }, async ({ session }, request, reply) => {
      const { group, member } = await membershipOf(request.params.group, session)
      const { name } = group
      const again =
        member.provider === null
          ? 'Only an admin can make you a member again.'
          : `The sign-in provider ${member.provider} makes you a member again at your next sign-in, unless you leave the group there first.`
      return confirmationPage(reply, session, {
        title: `Leave ${name}?`,
        explanation: `Your role ${member.role} ends at once, also for your tokens and applications. Roles that you have on single repositories stay. ${again}`,
        action: `/${name}/-/leave`,
        fields: {},
        button: 'Leave',
        ask: null,
        back: `/${name}`,
      })
    }),
  )

  app.post<Route>(
    url,
    signedIn(
      context,
      { form: (request) => `/${request.params.group}/-/leave`, mayLackFactor: true },
      async ({ session, by }, request, reply) => {
        const { group } = await membershipOf(request.params.group, session)
        const { id, username } = session.account
        const outcome = await changeMember(db, by, {
          place: { groupId: group.id },
          account: { id, username },
          role: 'none',
        })
        if (outcome === 'last-admin') {
          throw new PageError(
            409,
            `You are the last admin of ${group.name}. Make another member admin first, at Members.`,
          )
        }
        leaveNotice(request, reply, config, `You left ${group.name}.`)
        return reply.redirect('/', 303)
      },
    ),
  )

  /** Returns the group and the visitor's own role on it. Throws 404 for everybody who is no member. */
  async function membershipOf(
    name: string,
    { account }: Session,
  ): Promise<{ group: Group; member: GroupMember }> {
    const group = await findGroup(db, name)
    const member = group && (await findGroupMember(db, group.id, account.username))
    if (!group || !member) throw pageNotFound()
    return { group, member }
  }
}
