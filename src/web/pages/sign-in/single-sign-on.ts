import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { findCredentialsById } from '../../../accounts/accounts.ts'
import type { FactorKind } from '../../../accounts/second-factor/check-factor.ts'
import { confirmSession, type Session } from '../../../accounts/sessions.ts'
import {
  enter,
  givesAccounts,
  keepInStep,
  linkAccount,
  type SingleSignOn,
} from '../../../accounts/single-sign-on/enter.ts'
import { findAccountsOfPerson } from '../../../accounts/single-sign-on/identities.ts'
import {
  insertProof,
  insertSignIn,
  type ProviderSignIn,
  signInLifetimeSeconds,
  takeSignIn,
} from '../../../accounts/single-sign-on/pending-sign-ins.ts'
import type { ProvenPerson } from '../../../accounts/single-sign-on/person.ts'
import { type Provider, ProviderError } from '../../../accounts/single-sign-on/providers.ts'
import type { AppContext } from '../../../context.ts'
import { networkOf } from '../../../domain/client-ip.ts'
import { makeOpaqueId } from '../../../domain/secrets.ts'
import { readCookie, setCookie } from '../../cookies.ts'
import { readQuery, text } from '../../forms.ts'
import { withoutTurn } from '../../network-turns.ts'
import { leaveNotice } from '../../notice.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { browserOf } from '../../principal.ts'
import { anybody, withReturn } from '../../visit.ts'
import { showLogin } from './login.ts'
import { findReturn } from './return-path.ts'
import { completeSignIn, redirectBack } from './sign-in.ts'

/** The context of the routes of single sign-on. */
export interface SingleSignOnContext extends AppContext {
  /** The providers by name. */
  providers: ReadonlyMap<string, Provider>
}

type ProviderRequest = FastifyRequest<{ Params: { provider: string } }>

const StartQuery = z.object({ return: text })
const CallbackQuery = z.object({ state: text })

/**
 * `/login/oidc/<provider>` redirects to an OpenID Connect provider, and handles its callback (OpenID Connect Core
 * §3.1).
 */
export async function providerSignInRoutes(
  app: FastifyInstance,
  context: SingleSignOnContext,
): Promise<void> {
  // Both routes wait for the provider.
  app.get(
    '/login/oidc/:provider',
    { exposeHeadRoute: false },
    withoutTurn(
      anybody(context, async (session, request: ProviderRequest, reply) => {
        const provider = theProvider(context, request)
        const { return: returnId } = readQuery(StartQuery, request)
        if (session) return redirectBack(context, reply, returnId)
        return startProviderSignIn(context, request, reply, provider, {
          returnId,
          accountId: null,
          isConfirmation: false,
        })
      }),
    ),
  )

  app.get(
    '/login/oidc/:provider/callback',
    { exposeHeadRoute: false },
    withoutTurn(
      anybody(
        context,
        async (session, request: ProviderRequest, reply) => {
          const provider = theProvider(context, request)
          const { state } = readQuery(CallbackQuery, request)
          const browser = readCookie(request, context.config, 'provider')
          const signIn = browser ? await takeSignIn(context.db, browser, provider.settings.name, state) : null
          if (!browser || !signIn) return refuseCallback(context, session, request, reply, provider)
          const { returnId, accountId, isConfirmation } = signIn
          try {
            const url = `${context.config.baseUrl}${request.url}`
            const person = await provider.provePerson(url, signIn)
            if (accountId !== null && isConfirmation) {
              return await confirm(context, session, reply, provider, person, { accountId, returnId })
            }
            if (accountId !== null)
              return await link(context, session, request, reply, provider, person, accountId)
            return await enterAccount(context, request, reply, provider, person, { browser, returnId })
          } catch (error) {
            if (!(error instanceof ProviderError)) throw error
            if (accountId !== null) throw new PageError(error.status, error.message)
            return showProblem(context, request, reply, returnId, error)
          }
        },
        { mayLackFactor: true },
      ),
    ),
  )
}

/** Sends the browser to the provider, for a sign-in, to link the signed-in account, or to confirm it. */
export async function startProviderSignIn(
  context: SingleSignOnContext,
  request: FastifyRequest,
  reply: FastifyReply,
  provider: Provider,
  about: Omit<ProviderSignIn, 'provider'>,
): Promise<FastifyReply> {
  const { config, db } = context
  const { accountId, isConfirmation } = about
  // Only a value that this server signed is stored.
  const returnId = (await findReturn(db, about.returnId)) === null ? '' : about.returnId
  const { name } = provider.settings
  // All tabs of a browser share one cookie. Each tab has its own state.
  const browser = readCookie(request, config, 'provider') ?? makeOpaqueId()
  const secrets = await insertSignIn(db, browser, networkOf(request.ip), {
    provider: name,
    ...about,
    returnId,
  })
  try {
    const redirectUri = `${config.baseUrl}/login/oidc/${name}/callback`
    const url = await provider.authorizationUrl(redirectUri, secrets, isConfirmation)
    setCookie(reply, config, 'provider', browser, signInLifetimeSeconds)
    return await reply.redirect(url, 303)
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    if (accountId !== null) throw new PageError(error.status, error.message)
    return showProblem(context, request, reply, returnId, error)
  }
}

/** Returns the provider that the URL names. Throws the 404 page for an unknown one. */
export function theProvider({ providers }: SingleSignOnContext, { params }: ProviderRequest): Provider {
  const provider = providers.get(params.provider)
  if (!provider) throw pageNotFound()
  return provider
}

/** Returns the context of a change of identities. The acting account is known only after the sign-in. */
export function singleSignOnOf(
  { config, db }: AppContext,
  request: FastifyRequest,
  { settings }: Pick<Provider, 'settings'>,
  accountId: string | null,
): SingleSignOn {
  return { db, log: request.log, by: browserOf(request, accountId), provider: settings, site: config.site }
}

/**
 * Signs a person in to the linked account. The next page shows the notice. `isRecent` says whether it is a recent proof of
 * the person, which sensitive actions need.
 */
export async function enterLinkedAccount(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  provider: Pick<Provider, 'settings'>,
  person: ProvenPerson,
  {
    account,
    returnId,
    notice,
    ...proven
  }: {
    account: { id: string; username: string }
    returnId: string
    isRecent: boolean
    notice?: string
    secondFactor?: FactorKind
  },
): Promise<FastifyReply> {
  await keepInStep(singleSignOnOf(context, request, provider, account.id), account, person)
  const credentials = await findCredentialsById(context.db, account.id)
  const proof = { method: 'provider', provider: provider.settings.name, ...proven } as const
  const session = credentials && (await completeSignIn(context, request, reply, credentials, proof))
  if (session) {
    if (notice !== undefined) leaveNotice(request, reply, context.config, notice, session)
    return redirectBack(context, reply, returnId)
  }
  const problem = 'Your account was changed or disabled a moment ago. Try again.'
  return showLogin(context, request, reply.code(403), { returnId, login: '', problem })
}

async function enterAccount(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  provider: Provider,
  person: ProvenPerson,
  { browser, returnId }: { browser: string; returnId: string },
): Promise<FastifyReply> {
  const { settings } = provider
  const mayMakeAccount = givesAccounts(context.config, settings)
  const entry = await enter(singleSignOnOf(context, request, provider, null), person, mayMakeAccount)
  if (entry.outcome === 'refused') {
    return showLogin(context, request, reply.code(403), { returnId, login: '', problem: entry.problem })
  }
  const { account } = entry
  if (entry.outcome === 'enter') {
    const isRecent = person.hasJustSignedIn
    return enterLinkedAccount(context, request, reply, provider, person, { account, returnId, isRecent })
  }
  const id = await insertProof(context.db, browser, { provider: settings.name, person, account, returnId })
  return reply.redirect(`/login/oidc/${settings.name}/account?proof=${id}`, 303)
}

/** Links the person to the account that started the link, if its browser is still signed in. */
async function link(
  context: AppContext,
  session: Session | null,
  request: FastifyRequest,
  reply: FastifyReply,
  provider: Provider,
  person: ProvenPerson,
  accountId: string,
): Promise<FastifyReply> {
  if (session?.account.id !== accountId) {
    throw new PageError(403, 'You have signed out in the meantime, so nothing was linked.')
  }
  const about = singleSignOnOf(context, request, provider, accountId)
  const problem = await linkAccount(about, { accountId, passwordHash: null }, person)
  if (problem !== null) throw new PageError(409, problem)
  await keepInStep(about, session.account, person)
  leaveNotice(request, reply, context.config, `Your account is linked with ${provider.settings.label}.`)
  return reply.redirect('/settings/account', 303)
}

/**
 * Confirms the session of an account whose person has signed in at a linked provider again. If the provider does not say
 * so, the person confirms in another way: they may have been signed in there for days.
 */
async function confirm(
  context: AppContext,
  session: Session | null,
  reply: FastifyReply,
  provider: Provider,
  person: ProvenPerson,
  { accountId, returnId }: { accountId: string; returnId: string },
): Promise<FastifyReply> {
  const { linked } = await findAccountsOfPerson(context.db, person)
  const { label, name } = provider.settings
  if (session?.account.id !== accountId || linked?.id !== accountId) {
    throw new PageError(403, `This is not the account at ${label} that is linked with your account here.`)
  }
  if (!person.hasJustSignedIn) {
    return reply.redirect(withReturn('/settings/confirm-access', returnId, { unproven: name }), 303)
  }
  await confirmSession(context.db, session.idHash, 'provider')
  return redirectBack(context, reply, returnId)
}

/** Shows the error for a callback without a sign-in of this browser: it was reloaded, has expired, or is forged. */
async function refuseCallback(
  context: AppContext,
  session: Session | null,
  request: FastifyRequest,
  reply: FastifyReply,
  { settings: { label } }: Provider,
): Promise<FastifyReply> {
  if (session) return reply.redirect('/', 303)
  const problem = `This sign-in with ${label} was already used, has expired, or began in another browser. Try again.`
  return showLogin(context, request, reply.code(400), { returnId: '', login: '', problem })
}

async function showProblem(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  returnId: string,
  { status, message }: ProviderError,
): Promise<FastifyReply> {
  if (status === 503) void reply.header('retry-after', '5')
  return showLogin(context, request, reply.code(status), { returnId, login: '', problem: message })
}
