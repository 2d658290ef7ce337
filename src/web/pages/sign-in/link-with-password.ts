import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Credentials } from '../../../accounts/accounts.ts'
import type { FactorKind } from '../../../accounts/second-factor/check-factor.ts'
import { linkAccount } from '../../../accounts/single-sign-on/enter.ts'
import {
  deleteProof,
  findProof,
  type ProofInWaiting,
} from '../../../accounts/single-sign-on/pending-sign-ins.ts'
import type { Provider } from '../../../accounts/single-sign-on/providers.ts'
import type { AppContext } from '../../../context.ts'
import type { SecretHash } from '../../../domain/secrets.ts'
import { readCookie } from '../../cookies.ts'
import { PageError } from '../../page-error.ts'
import { enterLinkedAccount, singleSignOnOf } from './single-sign-on.ts'

/**
 * Links an identified person to the account whose password they gave, and signs them in. The account must still have
 * this password. Works once for each proof.
 */
export async function linkWithPassword(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  provider: Pick<Provider, 'settings'>,
  { account, person, returnId }: ProofInWaiting,
  {
    proofHash,
    credentials,
    ...proven
  }: {
    proofHash: SecretHash
    credentials: Credentials
    secondFactor?: FactorKind
  },
): Promise<FastifyReply> {
  if (!(await deleteProof(context.db, proofHash))) throw proofIsGone(provider)
  const about = singleSignOnOf(context, request, provider, account.id)
  const problem = await linkAccount(about, credentials, person)
  if (problem !== null) throw new PageError(409, problem)
  const notice = `Your account is linked with ${provider.settings.label}.`
  return enterLinkedAccount(context, request, reply, provider, person, {
    account,
    returnId,
    // They have just given the password.
    isRecent: true,
    notice,
    ...proven,
  })
}

/** Links the person who waits for the second factor that they have just given, and signs them in. */
export async function linkAfterSecondStep(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  given: { proofHash: SecretHash; credentials: Credentials; secondFactor: FactorKind },
): Promise<FastifyReply> {
  const browser = readCookie(request, context.config, 'provider')
  const waiting = browser === null ? null : await findProof(context.db, browser, given.proofHash)
  const settings = context.config.providers.find(({ name }) => name === waiting?.provider)
  if (!waiting || !settings)
    throw new PageError(410, 'This sign-in was already used or has expired. Sign in again.')
  return linkWithPassword(context, request, reply, { settings }, waiting, given)
}

/** The error for a proof that is unknown in this browser, expired or used. */
export function proofIsGone({ settings: { label } }: Pick<Provider, 'settings'>): PageError {
  return new PageError(410, `This sign-in with ${label} was already used or has expired. Sign in again.`)
}
