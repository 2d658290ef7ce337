import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Parts } from '../app.ts'
import { clearCookie, readCookie, setCookie } from '../http/cookies.ts'
import { field, readQuery } from '../http/page-form.ts'
import { page } from '../http/pages.ts'
import { hashSecret } from '../secrets.ts'
import { type Credentials, findCredentials, replacePasswordHash } from './accounts.ts'
import { hashPassword, isPassword, needsRehash, nobodysHash } from './passwords.ts'
import { deleteSession, insertSession } from './sessions.ts'
import { findReturn } from './sign-in-returns.ts'
import { readSession, stranger } from './visitor.ts'

const loginPage = page<{ returnId: string; login: string; problem: string | null }>('accounts/login')

/** Signing in and out (DESIGN §4, §8). */
export async function loginRoutes(app: FastifyInstance, parts: Parts): Promise<void> {
  const { config, db } = parts

  app.get('/login', async (request, reply) => {
    const returnId = field(readQuery(request), 'return')
    if (await readSession(parts, request)) return goOn(parts, reply, returnId)
    return loginPage(reply, stranger(parts, request, reply), { returnId, login: '', problem: null })
  })

  app.post('/login', async (request, reply) => {
    const returnId = field(request.body, 'return')
    const login = field(request.body, 'username').trim()
    const credentials = await checkPassword(parts, login, field(request.body, 'password'))
    if (!credentials) {
      const problem = 'This username and password do not match.'
      return loginPage(reply.code(403), stranger(parts, request, reply), { returnId, login, problem })
    }
    await endSession(parts, request)
    setCookie(reply, config, 'session', await insertSession(db, credentials.accountId))
    clearCookie(reply, config, 'visit')
    return goOn(parts, reply, returnId)
  })

  app.post('/logout', async (request, reply) => {
    await endSession(parts, request)
    clearCookie(reply, config, 'session')
    return reply.redirect('/', 303)
  })
}

/** The account's credentials when the password is theirs. An unknown account costs the same work as a known one. */
async function checkPassword({ db }: Parts, login: string, password: string): Promise<Credentials | null> {
  const credentials = await findCredentials(db, login)
  const isTheirs = await isPassword(password, credentials?.passwordHash ?? nobodysHash)
  if (!credentials || !isTheirs) return null
  if (needsRehash(credentials.passwordHash)) {
    await replacePasswordHash(db, credentials, await hashPassword(password))
  }
  return credentials
}

async function endSession({ config, db }: Parts, request: FastifyRequest): Promise<void> {
  const id = readCookie(request, config, 'session')
  if (id !== null) await deleteSession(db, hashSecret(id))
}

/** To the page that asked for the sign-in, or home. */
async function goOn({ db }: Parts, reply: FastifyReply, returnId: string): Promise<FastifyReply> {
  return reply.redirect((await findReturn(db, returnId)) ?? '/', 303)
}
