import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type AccountDetails, findAccountDetails } from '../../../accounts/accounts.ts'
import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { brokenConstraint } from '../../../database/errors.ts'
import { UnwritableMigration } from '../../../database/operator-migrations.ts'
import { describeRule } from '../../../database/rules.ts'
import type { Principal } from '../../../domain/principal.ts'
import { UnacceptableChange } from '../../../oauth/application-changes.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import type { Confirmation } from '../../pages.ts'
import { principalOf } from '../../principal.ts'
import { readSession, requireProofFor, resumeHeldForm, type Visit } from '../../visit.ts'
import { mayOnSite } from '../permit.ts'

/** Who sent an accepted request of the administration pages. */
export interface Administrator {
  /** Returns the session of the administrator. */
  sessionOf: (request: FastifyRequest) => Session
  /** Returns the administrator as the one who makes a change. */
  byOf: (request: FastifyRequest) => Principal
}

/** The context of the administration pages. */
export interface AdminContext extends AppContext, Administrator {}

/**
 * Responds with 404 on every URL of the scope to everybody but site administrators, before a body is read. A POST is
 * checked again after its body has arrived.
 */
export function onlyAdministrators(scope: FastifyInstance, context: AppContext): Administrator {
  const visits = new WeakMap<FastifyRequest, Pick<Visit, 'session' | 'by'>>()
  const judge = async (request: FastifyRequest) => {
    const session = await readSession(context, request)
    if (!session || !mayOnSite(session, 'readSite')) throw pageNotFound()
    visits.set(request, { session, by: principalOf(request, session) })
    return session
  }
  const prove = (request: FastifyRequest, session: Session) =>
    requireProofFor('readSite', context, request, session, pageOf(request))
  scope.addHook('onRequest', async (request) => {
    const session = await judge(request)
    // A form can be kept until the confirmation only after its body has arrived.
    if (request.method !== 'POST') await prove(request, session)
  })
  // A slow body may arrive after the administrator was disabled or lost the role.
  scope.addHook('preHandler', async (request) => {
    if (request.method !== 'POST') return
    const session = await judge(request)
    await resumeHeldForm(context, request, session)
    await prove(request, session)
  })
  const visitOf = (request: FastifyRequest) => {
    const visit = visits.get(request)
    if (!visit) throw pageNotFound()
    return visit
  }
  return { sessionOf: (request) => visitOf(request).session, byOf: (request) => visitOf(request).by }
}

/** Returns the page of a request. For a POST to `/admin/accounts/ann/password` it is `/admin/accounts/ann`. */
function pageOf({ method, routeOptions, url }: FastifyRequest): string {
  if (method !== 'POST') return url
  const [path = ''] = url.split('?', 1)
  if (path.endsWith('/new')) return path
  const isAboutOne = routeOptions.url?.split('/')[3]?.startsWith(':') === true
  return path
    .split('/')
    .slice(0, isAboutOne ? 4 : 3)
    .join('/')
}

/** Finds the account of a URL. Throws the 404 page when it does not exist. */
export async function accountOfPage({ db }: AdminContext, username: string): Promise<AccountDetails> {
  // PostgreSQL cannot store NUL in text.
  const found = username.includes('\0') ? null : await findAccountDetails(db, username)
  if (!found) throw pageNotFound()
  return found
}

/** The check box that ends everything of an account, not only its sessions. */
export const endEverythingChoice: NonNullable<Confirmation['choice']> = {
  name: 'end_everything',
  label: 'End everything',
  hint: 'Also revokes its tokens and applications, and the deploy tokens and invitations that it made. This cannot be undone, also not by enabling the account.',
}

/** Redirects to a page, which shows the sentence once. */
export function goOn(
  { config }: AppContext,
  reply: FastifyReply,
  url: string,
  sentence: string,
): FastifyReply {
  leaveNotice(reply.request, reply, config, sentence)
  return reply.redirect(url, 303)
}

/**
 * Runs a change that writes a migration. Returns its result, or a sentence about the problem if nothing was changed.
 */
export async function orProblem<Result>(change: () => Promise<Result>): Promise<Result | string> {
  try {
    return await change()
  } catch (error) {
    if (error instanceof UnacceptableChange || error instanceof UnwritableMigration) return error.message
    const rule = brokenConstraint(error)
    if (rule === null) throw error
    return describeRule(rule)
  }
}
