import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../accounts/sessions.ts'
import { brokenConstraint } from '../../database/errors.ts'
import { describeRule } from '../../database/rules.ts'
import { isAtLeast, mayCreateGroups, visibilities } from '../../domain/permissions.ts'
import { Refusal } from '../../domain/refusal.ts'
import { accountReader, listAccessibleGroups } from '../../groups/accessible-repositories.ts'
import { addGroup, addRepository } from '../../groups/group-lifecycle.ts'
import { readForm, readQuery, text } from '../forms.ts'
import { leaveNotice } from '../notice.ts'
import { PageError } from '../page-error.ts'
import { page } from '../pages.ts'
import { signedIn } from '../visit.ts'
import { managedGroup, type PagesContext } from './permit.ts'

/** The maximum number of groups that are suggested. People can type others. */
const maxSuggested = 200

const newGroupPage = page<{ name: string; problem: string | null }>('pages/new-group')
const newRepositoryPage = page<{
  form: z.output<typeof RepositoryForm>
  groups: string[]
  problem: string | null
}>('pages/new-repository')

const GroupForm = z.object({ name: text.transform((name) => name.trim()) })
const RepositoryQuery = z.object({ group: text })
const RepositoryForm = z.object({
  group: text.transform((name) => name.trim()),
  name: text.transform((name) => name.trim()),
  visibility: z.enum(visibilities),
  description: text.transform((description) => description.trim()),
})

/**
 * `/new/group` and `/new/repository`: everyone may create groups, unless GROUP_CREATION forbids it, and admins of a
 * group create repositories in it.
 */
export async function newRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/new/group',
    signedIn(context, async ({ session }, _request, reply) => {
      if (!mayCreateGroups(config, session.account)) {
        throw new PageError(403, 'Only site administrators create groups here. Ask one of them for a group.')
      }
      return newGroupPage(reply, session, { name: '', problem: null })
    }),
  )

  app.post(
    '/new/group',
    signedIn(context, { form: '/new/group' }, async ({ session, by }, request, reply) => {
      const { name } = readForm(GroupForm, request)
      const problem = await whyRefused(name, () => addGroup(context, by, name, session.account))
      if (problem !== null) return newGroupPage(reply.code(400), session, { name, problem })
      leaveNotice(request, reply, config, `Group ${name} created. You are its admin.`)
      return reply.redirect(`/${name}`, 303)
    }),
  )

  app.get(
    '/new/repository',
    signedIn(context, async ({ session }, request, reply) => {
      const { group } = readQuery(RepositoryQuery, request)
      const form = { group, name: '', visibility: 'private' as const, description: '' }
      return showRepositoryForm(reply, session, form, null)
    }),
  )

  app.post(
    '/new/repository',
    signedIn(context, { form: '/new/repository' }, async ({ session, by }, request, reply) => {
      const form = readForm(RepositoryForm, request)
      const { id: groupId } = await managedGroup(db, form.group, session, 'createRepository')
      const { name, visibility, description } = form
      const draft = { groupId, name, visibility, description }
      const problem = await whyRefused(name, () => addRepository(context, by, draft))
      if (problem !== null) return showRepositoryForm(reply.code(400), session, form, problem)
      leaveNotice(request, reply, config, `Repository ${form.group}/${name} created.`)
      return reply.redirect(`/${form.group}/${name}`, 303)
    }),
  )

  async function showRepositoryForm(
    reply: FastifyReply,
    session: Session,
    form: z.output<typeof RepositoryForm>,
    problem: string | null,
  ): Promise<FastifyReply> {
    const part = { after: null, limit: maxSuggested }
    const found = await listAccessibleGroups(db, accountReader(session.account.id), part)
    const groups = found.filter(({ role }) => session.account.isAdmin || isAtLeast(role, 'admin'))
    return newRepositoryPage(reply, session, { form, groups: groups.map(({ name }) => name), problem })
  }
}

/** Returns an advice with the nearest name that the rule allows. '' if the name is allowed, or nothing is left of it. */
function nameAdvice(name: string): string {
  const nearest = name
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/([._-])[._-]+/g, '$1')
    .replace(/^[._-]|[._-]$/g, '')
  return nearest === name || nearest === '' ? '' : ` Try ${nearest}.`
}

/**
 * Runs an insertion of something with a name. Returns null, or a sentence about the limit or the rule of the schema that it
 * breaks.
 */
async function whyRefused(name: string, insert: () => Promise<unknown>): Promise<string | null> {
  try {
    await insert()
    return null
  } catch (error) {
    if (error instanceof Refusal) return error.sentence
    const constraint = brokenConstraint(error)
    if (constraint === null) throw error
    return describeRule(constraint) + nameAdvice(name)
  }
}
