import type { FastifyReply } from 'fastify'
import type { Session } from '../accounts/sessions.ts'
import type { Queryable } from '../database/database.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import { type DescribedScopes, describeResourceScope, describeScopes } from '../domain/scope-descriptions.ts'
import { page } from '../http/pages.ts'
import { type RepositoryPicker, readPicker } from '../repositories/repository-choices.ts'
import type { ConsentApplication } from './authorization-requests.ts'

/** What a consent page asks about. */
export interface Question {
  /** The pending request's id: all that the form carries of it. */
  id: string
  application: ConsentApplication
  scopes: readonly string[]
  resourceScope: ResourceScope
  redirectUri: string
}

/** What a person has done to the page so far. */
export interface Draft {
  search: string
  /** Paths of the repositories ticked. */
  chosen: readonly string[]
  problem?: string
}

const consentPage = page<{
  requestId: string
  application: ConsentApplication
  scopeGroups: DescribedScopes[]
  resourceScope: string
  redirectHost: string
  picker: RepositoryPicker | null
  problem: string | null
}>('oauth/consent')

/** Asks the account for its consent for what the application asks. `reply` may carry a status already. */
export async function showConsent(
  db: Queryable,
  reply: FastifyReply,
  session: Session,
  question: Question,
  draft: Draft,
): Promise<FastifyReply> {
  const isSpecified = question.resourceScope === 'specified'
  return consentPage(reply, session, {
    requestId: question.id,
    application: question.application,
    scopeGroups: describeScopes(question.scopes),
    resourceScope: describeResourceScope(question.resourceScope),
    redirectHost: new URL(question.redirectUri).host,
    picker: isSpecified ? await readPicker(db, session.account.id, draft) : null,
    problem: draft.problem ?? null,
  })
}
