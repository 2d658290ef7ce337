import type { FastifyInstance, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { endSessions } from '../../accounts/sessions.ts'
import type { AppContext } from '../../context.ts'
import { findApplicationByClientId } from '../../oauth/applications.ts'
import { isClientId } from '../../oauth/client-id.ts'
import { redirectTo } from '../../oauth/redirect-uri.ts'
import { readIdTokenHint } from '../../openid/id-tokens.ts'
import { clearCookie } from '../cookies.ts'
import { readForm, readQuery, text } from '../forms.ts'
import { leaveFarewell } from '../notice.ts'
import { page } from '../pages.ts'
import { principalOf } from '../principal.ts'
import { anybody } from '../visit.ts'

const LogoutParameters = z.object({
  id_token_hint: text,
  client_id: text,
  post_logout_redirect_uri: text,
  state: text,
})
type LogoutRequest = z.output<typeof LogoutParameters>

const logoutPage = page<{
  /** The name of the application that asks. Null when it is not known. */
  name: string | null
  sent: LogoutRequest
  /** Whether the application named a URL to return to that it is not registered with. */
  isUnregistered: boolean
}>('oauth/logout')

/**
 * `/oauth2/logout`: an application signs a person out of svc (OpenID Connect RP-Initiated Logout 1.0, OPENID 257). The page asks,
 * because every site can send a browser here. Its form reads and checks the same parameters again.
 */
export async function logoutPages(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/oauth2/logout',
    anybody(
      context,
      async (session, request, reply) => {
        const sent = readQuery(LogoutParameters, request)
        const { name, returnTo } = await readRequest(sent)
        if (!session) return reply.redirect(returnTo ?? '/', 303)
        const isUnregistered = sent.post_logout_redirect_uri !== '' && returnTo === null
        return logoutPage(reply, session, { name, sent, isUnregistered })
      },
      { mayLackFactor: true },
    ),
  )

  // A hook redirects it to the page above.
  app.post('/oauth2/logout', async (_request, reply) => reply.redirect('/oauth2/logout', 303))

  app.post(
    '/oauth2/logout/confirm',
    anybody(
      context,
      async (session, request: FastifyRequest, reply) => {
        const { returnTo } = await readRequest(readForm(LogoutParameters, request))
        if (session) {
          const by = principalOf(request, session)
          await endSessions(db, by, session.account.id, { idHash: session.idHash }, 'sign-out')
        }
        clearCookie(reply, config, 'session')
        if (returnTo === null) leaveFarewell(reply, config, 'signed-out')
        return reply.redirect(returnTo ?? '/', 303)
      },
      { mayLackFactor: true },
    ),
  )

  /**
   * Returns the application that asks, and the URL to which the browser returns, with the state. Null without a URL that is
   * exactly the registered one.
   */
  async function readRequest({
    id_token_hint,
    client_id,
    post_logout_redirect_uri,
    state,
  }: LogoutRequest): Promise<{ name: string | null; returnTo: string | null }> {
    const hint = id_token_hint === '' ? null : await readIdTokenHint(db, config, id_token_hint)
    const clientId = hint?.clientId ?? client_id
    // A hint that is wrong, or of another application, proves nothing.
    const isProven = (id_token_hint === '' || hint !== null) && (client_id || clientId) === clientId
    const application =
      isProven && isClientId(clientId) ? await findApplicationByClientId(db, clientId) : null
    if (application?.status !== 'approved') return { name: null, returnTo: null }
    const { name, postLogoutRedirectUri } = application
    const isRegistered = postLogoutRedirectUri !== null && post_logout_redirect_uri === postLogoutRedirectUri
    if (!isRegistered) return { name, returnTo: null }
    const parameters = state === '' ? null : { state: encodeURIComponent(state) }
    return {
      name,
      returnTo: parameters ? redirectTo(postLogoutRedirectUri, parameters) : postLogoutRedirectUri,
    }
  }
}
