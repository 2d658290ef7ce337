import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { lockAccount } from '../../../accounts/accounts.ts'
import { checkSignIn } from '../../../accounts/password-check.ts'
import { findFactors, hasFactor } from '../../../accounts/second-factor/factors.ts'
import { givesAccounts, makeAccount, unlinkAccount } from '../../../accounts/single-sign-on/enter.ts'
import { listIdentities } from '../../../accounts/single-sign-on/identities.ts'
import {
  deleteProof,
  findProof,
  type ProofInWaiting,
  renewProof,
  signInLifetimeSeconds,
} from '../../../accounts/single-sign-on/pending-sign-ins.ts'
import type { Provider } from '../../../accounts/single-sign-on/providers.ts'
import type { AppContext } from '../../../context.ts'
import { transaction } from '../../../database/database.ts'
import { hashSecret } from '../../../domain/secrets.ts'
import { anAdministrator } from '../../../domain/site.ts'
import { readCookie, setCookie } from '../../cookies.ts'
import { csrfToken } from '../../csrf.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signInOriginOf } from '../../sign-in-origin.ts'
import { signedIn } from '../../visit.ts'
import { linkWithPassword, proofIsGone } from '../sign-in/link-with-password.ts'
import { noteRefusedSignIn } from '../sign-in/sign-in.ts'
import {
  enterLinkedAccount,
  type SingleSignOnContext,
  singleSignOnOf,
  startProviderSignIn,
  theProvider,
} from '../sign-in/single-sign-on.ts'
import { redirectToSecondStep } from '../sign-in/waiting-step.ts'

type ProviderRequest = FastifyRequest<{ Params: { provider: string } }>

const choicePage = page<{
  label: string
  /** The URL of the form. */
  action: string
  proof: string
  /** The account that may be theirs. */
  username: string
  email: string | null
  hasPassword: boolean
  mayMakeAccount: boolean
  problem: string | null
}>('accounts/choose-account')

const linkPage = page<{ label: string; action: string }>('accounts/link-provider')

const ProofQuery = z.object({ proof: text })
const ChoiceForm = z.object({ proof: text, decision: z.enum(['link', 'new']), password: text })
const ReturnForm = z.object({ return: text })
const UnlinkForm = z.object({ issuer: text })

/**
 * Pages whose forms may lead to an application or a provider. On one, a person chooses whether an account with their
 * email or name is theirs. The other asks before it links a signed-in account.
 */
export async function linkRoutes(app: FastifyInstance, context: SingleSignOnContext): Promise<void> {
  const { config, db } = context

  app.get('/login/oidc/:provider/account', async (request: ProviderRequest, reply) => {
    const provider = theProvider(context, request)
    const { proof } = readQuery(ProofQuery, request)
    const waiting = await waitingProof(request, provider, proof)
    return showChoice(request, reply, provider, waiting, { proof, problem: null })
  })

  app.post('/login/oidc/:provider/account', async (request: ProviderRequest, reply) => {
    const provider = theProvider(context, request)
    const { proof, decision, password } = readForm(ChoiceForm, request)
    const waiting = await waitingProof(request, provider, proof)
    const { person, account, returnId } = waiting
    const proofHash = hashSecret(proof)
    if (decision === 'new') {
      if (!givesAccounts(config, provider.settings)) {
        throw new PageError(
          403,
          `This sign-in cannot create an account. Ask ${anAdministrator(config.site)} for one.`,
        )
      }
      if (!(await deleteProof(db, proofHash))) throw proofIsGone(provider)
      const made = await makeAccount(singleSignOnOf(context, request, provider, null), person)
      if (made.outcome === 'refused') throw new PageError(403, made.problem)
      return enterLinkedAccount(context, request, reply, provider, person, {
        account: made.account,
        returnId,
        isRecent: person.hasJustSignedIn,
        notice: `Your account ${made.account.username} was created.`,
      })
    }
    const checked = await checkSignIn(db, account.username, password, signInOriginOf(request, config))
    if ('problem' in checked) {
      await noteRefusedSignIn(db, request, account.username, checked)
      reply.code(checked.status).headers(checked.headers)
      const problem = checked.status === 403 ? 'This is not the password of that account.' : checked.problem
      return showChoice(request, reply, provider, waiting, { proof, problem })
    }
    if (checked.accountId !== account.id) throw proofIsGone(provider)
    if (hasFactor(await findFactors(db, account.id))) {
      // The password alone is not enough to sign in to this account, so it is not enough to link it either.
      // Otherwise the proof could expire first, and a recovery code would be spent in vain.
      await renewProof(db, proofHash)
      const browser = readCookie(request, config, 'provider')
      if (browser !== null) setCookie(reply, config, 'provider', browser, signInLifetimeSeconds)
      return redirectToSecondStep(context, reply, checked, returnId, proofHash)
    }
    return linkWithPassword(context, request, reply, provider, waiting, { proofHash, credentials: checked })
  })

  app.get(
    '/login/oidc/:provider/link',
    signedIn(context, async ({ session, confirm }, request: ProviderRequest, reply) => {
      const { settings } = theProvider(context, request)
      await confirm()
      return linkPage(reply, session, { label: settings.label, action: `/login/oidc/${settings.name}/link` })
    }),
  )

  app.post(
    '/login/oidc/:provider/link',
    signedIn(
      context,
      { form: '/settings/account' },
      async ({ session, confirm }, request: ProviderRequest, reply) => {
        const provider = theProvider(context, request)
        await confirm(`/login/oidc/${provider.settings.name}/link`)
        const about = { returnId: '', accountId: session.account.id, isConfirmation: false }
        return startProviderSignIn(context, request, reply, provider, about)
      },
    ),
  )

  app.post(
    '/login/oidc/:provider/confirm',
    signedIn(
      context,
      { form: '/', mayLackFactor: true },
      async ({ session }, request: ProviderRequest, reply) => {
        const provider = theProvider(context, request)
        const { return: returnId } = readForm(ReturnForm, request)
        const about = { returnId, accountId: session.account.id, isConfirmation: true }
        return startProviderSignIn(context, request, reply, provider, about)
      },
    ),
  )

  async function waitingProof(
    request: FastifyRequest,
    provider: Provider,
    proof: string,
  ): Promise<ProofInWaiting> {
    const browser = readCookie(request, config, 'provider')
    const waiting = browser === null ? null : await findProof(db, browser, hashSecret(proof))
    if (waiting?.provider !== provider.settings.name) throw proofIsGone(provider)
    return waiting
  }

  async function showChoice(
    request: FastifyRequest,
    reply: FastifyReply,
    { settings }: Provider,
    { account, person }: ProofInWaiting,
    { proof, problem }: { proof: string; problem: string | null },
  ): Promise<FastifyReply> {
    const about = await transaction(db, (tx) => lockAccount(tx, account.id))
    const visitor = { account: null, csrfToken: csrfToken(request, reply, config) }
    return choicePage(reply, visitor, {
      label: settings.label,
      action: `/login/oidc/${settings.name}/account`,
      proof,
      username: account.username,
      email: person.isEmailVerified ? person.email : null,
      hasPassword: about?.hasPassword === true,
      mayMakeAccount: givesAccounts(config, settings),
      problem,
    })
  }
}

/** `/settings/account/identities/unlink`. */
export async function unlinkRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/settings/account/identities/unlink',
    signedIn(context, async ({ session }, request, reply) => {
      const { issuer } = readQuery(UnlinkForm, request)
      const identities = await listIdentities(db, session.account.id)
      const identity = identities.find((one) => one.issuer === issuer)
      if (!identity) throw pageNotFound()
      return confirmationPage(reply, session, {
        title: `Unlink ${identity.email ?? identity.provider}?`,
        explanation: 'You can no longer sign in to this account with it, until you link it again.',
        action: '/settings/account/identities/unlink',
        fields: { issuer },
        button: 'Unlink',
        ask: null,
        back: '/settings/account',
      })
    }),
  )

  app.post(
    '/settings/account/identities/unlink',
    signedIn(context, { form: '/settings/account' }, async ({ session, confirm, by }, request, reply) => {
      await confirm()
      const { issuer } = readForm(UnlinkForm, request)
      const outcome = await unlinkAccount(db, by, session.account, issuer, config)
      if (outcome === 'only-way') {
        const remedy = 'Link another provider, set a password, or sign in once with a passkey alone first.'
        throw new PageError(409, `This is your only way to sign in, so it stays linked. ${remedy}`)
      }
      leaveNotice(request, reply, config, 'The account is no longer linked.')
      return reply.redirect('/settings/account', 303)
    }),
  )
}
