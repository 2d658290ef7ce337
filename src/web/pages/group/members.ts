import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { findAccountByUsername } from '../../../accounts/accounts.ts'
import type { Session } from '../../../accounts/sessions.ts'
import { type ListPart, pageOf } from '../../../domain/paging.ts'
import { type Role, roles } from '../../../domain/permissions.ts'
import type { Principal } from '../../../domain/principal.ts'
import type { VisibleGroup } from '../../../groups/groups.ts'
import { findGroupMember, listGroupMembers, listMembers } from '../../../groups/members.ts'
import { changeMember, type MemberChange } from '../../../groups/membership.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { managedGroup, type PagesContext, permittedRepository } from '../permit.ts'

const membersPerPage = 100

/** A group or a repository whose members are shown. */
interface Place {
  /** `acme` or `acme/php`. */
  path: string
  /** Null for a repository. */
  group: VisibleGroup | null
  /** Null for a group. */
  repository: VisibleRepository | null
  target: MemberChange['place']
}

interface ShownMember {
  username: string
  displayName: string
  role: Role
  /** The role that this page can change. Null on a repository's page for members of the group. */
  ownRole: Role | null
  /** The sign-in provider that made the account a member of the group. Null on the page of a repository. */
  provider: string | null
}

interface MemberChoice {
  username: string
  role: Role
}

const membersPage = page<{
  place: Place
  repository: VisibleRepository | null
  members: ShownMember[]
  roles: readonly Role[]
  /** Why a change of a member was refused. */
  problem: string | null
  next: string | null
}>('pages/members')
const newMemberPage = page<{
  place: Place
  repository: VisibleRepository | null
  roles: readonly Role[]
  form: MemberChoice
  problem: string | null
}>('pages/new-member')

const MembersQuery = z.object({ after: text })
const UsernameQuery = z.object({ username: text })
const username = text.transform((name) => name.trim())
/** `row` is for the menu of a member. */
const MemberForm = z.object({ username, role: z.enum(roles), row: z.literal('yes').optional() })
const RemovalForm = z.object({ username })

type MembersRequest = FastifyRequest<{ Params: { group: string; name?: string } }>

/**
 * `/<group>/-/members` and `/<group>/<name>/-/members`: roles on a whole group, and on one repository. Below `…/new` is the
 * form that adds a member.
 */
export async function memberPageRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context

  for (const url of ['/:group/-/members', '/:group/:name/-/members']) {
    app.get<{ Params: MembersRequest['params'] }>(
      url,
      signedIn(context, async ({ session }, request, reply) => {
        const place = await placeOf(request, session, 'readSettings')
        const { after } = readQuery(MembersQuery, request)
        return showMembers(reply, session, place, { after, problem: null })
      }),
    )

    app.get<{ Params: MembersRequest['params'] }>(
      `${url}/new`,
      signedIn(context, async ({ session }, request, reply) => {
        const place = await placeOf(request, session, 'manage')
        return showForm(reply, session, place, { form: { username: '', role: 'guest' }, problem: null })
      }),
    )

    // The URL of the list takes the menus of its members, and this form too: programs post there.
    for (const below of ['', '/new']) {
      app.post<{ Params: MembersRequest['params'] }>(
        `${url}${below}`,
        signedIn(
          context,
          { form: (request) => `${membersUrl(request.params)}${below}` },
          async ({ session, by, prove }, request, reply) => {
            const place = await placeOf(request, session, 'manage')
            const { row, ...form } = readForm(MemberForm, request)
            if (form.role === 'admin') {
              const act = place.group === null ? 'appointAdmin' : 'appointGroupAdmin'
              await prove(act)
            }
            // Another admin may have removed the member since this page was loaded. The row must not add the member again.
            const problem = await change(by, place, { ...form, mustBeMember: row !== undefined })
            if (problem !== null) {
              reply.code(400)
              if (row) return showMembers(reply, session, place, { problem })
              return showForm(reply, session, place, { form, problem })
            }
            leaveNotice(request, reply, config, `${form.username} is now ${form.role} of ${place.path}.`)
            return reply.redirect(membersUrl(request.params), 303)
          },
        ),
      )
    }

    app.get<{ Params: MembersRequest['params'] }>(
      `${url}/remove`,
      signedIn(context, async ({ session }, request, reply) => {
        const place = await placeOf(request, session, 'manage')
        const { username } = readQuery(UsernameQuery, request)
        const back = membersUrl(request.params)
        const provider = await providerOf(place, username)
        return confirmationPage(reply, session, {
          title: `Remove ${username} from ${place.path}?`,
          explanation: `The role ends at once, also for tokens and applications of this account.${
            place.group ? ' Roles on single repositories stay: remove them there.' : ''
          }${
            provider === null
              ? ''
              : ` The sign-in provider ${provider} gives a role again at the next sign-in, unless you remove the person from the group there first.`
          }`,
          action: `${back}/remove`,
          fields: { username },
          button: 'Remove',
          ask: null,
          back,
        })
      }),
    )

    app.post<{ Params: MembersRequest['params'] }>(
      `${url}/remove`,
      signedIn(
        context,
        { form: (request) => membersUrl(request.params) },
        async ({ session, by }, request, reply) => {
          const back = membersUrl(request.params)
          const place = await placeOf(request, session, 'manage')
          const { username } = readForm(RemovalForm, request)
          const problem = await change(by, place, { username, role: 'none' })
          if (problem !== null) return showMembers(reply.code(400), session, place, { problem })
          leaveNotice(request, reply, config, `${username} was removed from ${place.path}.`)
          // People who removed their own role may no longer see this page.
          return reply.redirect(username === session.account.username ? '/' : back, 303)
        },
      ),
    )
  }

  async function placeOf(
    { params }: MembersRequest,
    session: Session,
    act: 'readSettings' | 'manage',
  ): Promise<Place> {
    const { group, name } = params
    if (name === undefined) {
      const managed = await managedGroup(db, group, session, act === 'manage' ? 'manageGroup' : 'readGroup')
      return { path: group, group: managed, repository: null, target: { groupId: managed.id } }
    }
    const repository = await permittedRepository(db, { group, name }, session, act)
    return { path: repository.path, group: null, repository, target: { repositoryId: repository.id } }
  }

  /** Changes a role. Returns null, or the reason why it was rejected. */
  async function change(
    by: Principal,
    { path, repository, target }: Place,
    {
      username: name,
      role,
      mustBeMember = false,
    }: { username: string; role: Role | 'none'; mustBeMember?: boolean },
  ): Promise<string | null> {
    const account = await findAccountByUsername(db, name)
    if (!account)
      return `There is no account “${name}”. Check the username${repository ? '. Admins of the group can invite people who have none.' : ', or invite the person with a link.'}`
    const made = { place: target, account, role, mustBeMember }
    const outcome = await changeMember(db, by, made)
    if (outcome === 'last-admin')
      return `${name} is the last admin of ${path}. Make someone else admin first.`
    return outcome === 'unchanged' ? `${name} has no direct role in ${path}.` : null
  }

  /** Returns the sign-in provider that made an account a member of the group. Null when a person did. */
  async function providerOf({ target }: Place, name: string): Promise<string | null> {
    if (!('groupId' in target)) return null
    return (await findGroupMember(db, target.groupId, name))?.provider ?? null
  }

  async function showMembers(
    reply: FastifyReply,
    session: Session,
    place: Place,
    { after = '', problem }: { after?: string; problem: string | null },
  ): Promise<FastifyReply> {
    const { rows: members, next } = await pageOf(
      (part) => list(place, part),
      { after, limit: membersPerPage },
      ({ username }) => username,
    )
    return membersPage(reply, session, {
      place,
      repository: place.repository,
      members,
      roles,
      problem,
      next,
    })
  }

  function showForm(
    reply: FastifyReply,
    session: Session,
    place: Place,
    shown: { form: MemberChoice; problem: string | null },
  ): FastifyReply {
    return newMemberPage(reply, session, { ...shown, place, repository: place.repository, roles })
  }

  async function list({ target }: Place, part: ListPart): Promise<ShownMember[]> {
    if ('groupId' in target) {
      const found = await listGroupMembers(db, target.groupId, part)
      return found.map((member) => ({ ...member, ownRole: member.role }))
    }
    const found = await listMembers(db, target.repositoryId, part)
    return found.map((member) => ({ ...member, ownRole: member.repositoryRole, provider: null }))
  }
}

function membersUrl({ group, name }: MembersRequest['params']): string {
  return name === undefined ? `/${group}/-/members` : `/${group}/${name}/-/members`
}
