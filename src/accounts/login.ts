import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AppContext } from '../context.ts'
import { hashSecret } from '../domain/secrets.ts'
import { clearCookie, readCookie, setCookie } from '../http/cookies.ts'
import { networkOf } from '../http/failure-limit.ts'
import { field, readQuery } from '../http/page-form.ts'
import { page } from '../http/pages.ts'
import { deleteSession, insertSession } from './sessions.ts'
import { checkSignIn } from './sign-in.ts'
import { findReturn } from './sign-in-returns.ts'
import { readSession, stranger } from './visitor.ts'

const loginPage = page<{ returnId: string; login: string; problem: string | null }>('accounts/login')

/** Signing in and out (DESIGN §4, §8). */
export async function loginRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get('/login', async (request, reply) => {
    const returnId = field(readQuery(request), 'return')
    if (await readSession(context, request)) return goOn(context, reply, returnId)
    return loginPage(reply, stranger(context, request, reply), { returnId, login: '', problem: null })
  })

  app.post('/login', async (request, reply) => {
    const returnId = field(request.body, 'return')
    const login = field(request.body, 'username').trim()
    const signIn = await checkSignIn(db, login, field(request.body, 'password'), request.ip)
    if ('problem' in signIn) {
      reply.code(signIn.status).headers(signIn.headers)
      return loginPage(reply, stranger(context, request, reply), { returnId, login, problem: signIn.problem })
    }
    await endSession(context, request)
    setCookie(reply, config, 'session', await insertSession(db, signIn.accountId, networkOf(request.ip)))
    clearCookie(reply, config, 'visit')
    return goOn(context, reply, returnId)
  })

  app.post('/logout', async (request, reply) => {
    await endSession(context, request)
    clearCookie(reply, config, 'session')
    return reply.redirect('/', 303)
  })
}

async function endSession({ config, db }: AppContext, request: FastifyRequest): Promise<void> {
  const id = readCookie(request, config, 'session')
  if (id !== null) await deleteSession(db, hashSecret(id))
}

/** To the page that asked for the sign-in, or home. */
async function goOn({ db }: AppContext, reply: FastifyReply, returnId: string): Promise<FastifyReply> {
  return reply.redirect((await findReturn(db, returnId)) ?? '/', 303)
}
