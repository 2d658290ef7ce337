import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { AppContext } from '../context.ts'
import { clearCookie } from '../http/cookies.ts'
import { csrfToken } from '../http/csrf.ts'
import { readForm, readQuery, text } from '../http/forms.ts'
import { page } from '../http/pages.ts'
import { completeSignIn, endSession, redirectBack } from './complete-sign-in.ts'
import { findFactors, hasFactor } from './second-factor/factors.ts'
import { redirectToSecondStep } from './second-factor/second-step.ts'
import { checkSignIn, noteRefusedSignIn, renewPasswordHash } from './sign-in.ts'
import { signInOriginOf } from './sign-in-origins.ts'
import { readSession, redirectToSignIn } from './visitor.ts'

const loginPage = page<{ returnId: string; login: string; problem: string | null }>('accounts/login')

const LoginQuery = z.object({ return: text, page: text })
const LoginForm = z.object({ return: text, username: text.transform((name) => name.trim()), password: text })

/** `/login` and `/logout`: sign in and out (DESIGN §4, §8). */
export async function loginRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get('/login', async (request, reply) => {
    const { return: returnId, page: from } = readQuery(LoginQuery, request)
    // The link “Sign in” of a page names the page. It is kept on the server, where only paths of this site pass.
    if (from !== '') return redirectToSignIn(context, request, reply, from)
    if (await readSession(context, request)) return redirectBack(context, reply, returnId)
    return showForm(context, request, reply, { returnId, login: '', problem: null })
  })

  app.post('/login', async (request, reply) => {
    const { return: returnId, username: login, password } = readForm(LoginForm, request)
    const checked = await checkSignIn(db, login, password, signInOriginOf(request, config))
    if ('problem' in checked) {
      await noteRefusedSignIn(db, request, login, checked)
      reply.code(checked.status).headers(checked.headers)
      return showForm(context, request, reply, { returnId, login, problem: checked.problem })
    }
    if (hasFactor(await findFactors(db, checked.accountId))) {
      const credentials = await renewPasswordHash(db, checked, password)
      return redirectToSecondStep(context, reply, credentials, returnId)
    }
    if (!(await completeSignIn(context, request, reply, checked))) {
      const problem = 'The password was changed a moment ago. Sign in with the new one.'
      return showForm(context, request, reply.code(403), { returnId, login, problem })
    }
    await renewPasswordHash(db, checked, password)
    return redirectBack(context, reply, returnId)
  })

  app.post('/logout', async (request, reply) => {
    await endSession(context, request)
    clearCookie(reply, config, 'session')
    return reply.redirect('/', 303)
  })
}

/** Shows the sign-in form, with the typed name and the problem. */
function showForm(
  { config }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  content: { returnId: string; login: string; problem: string | null },
): FastifyReply {
  return loginPage(reply, { account: null, csrfToken: csrfToken(request, reply, config) }, content)
}
