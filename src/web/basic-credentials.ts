import basicAuth from '@fastify/basic-auth'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** A username and password from HTTP Basic (RFC 7617). */
export interface BasicCredentials {
  username: string
  password: string
}

/**
 * Makes the scope read HTTP Basic credentials before its handlers: `basicCredentialsOf` returns them. It rejects
 * nothing itself, because each scope has its own errors and its own order of checks.
 */
export async function readBasicCredentials(scope: FastifyInstance): Promise<void> {
  scope.decorateRequest('basicCredentials', null)
  await scope.register(basicAuth, {
    // RFC 9110 §11.4 lets a client write more than one space after the scheme.
    strictCredentials: false,
    validate(username, password, request, _reply, done) {
      request.setDecorator<BasicCredentials>('basicCredentials', { username, password })
      done()
    },
  })
  const read = scope.basicAuth as (
    this: FastifyInstance,
    request: FastifyRequest,
    reply: FastifyReply,
    done: (error?: Error) => void,
  ) => void
  // A client sends the same header with every request, so the header of the last request is not parsed again.
  let last: { header: string; credentials: BasicCredentials | null } | undefined
  scope.addHook('onRequest', (request, reply, done) => {
    const header = request.headers.authorization ?? ''
    if (!/^basic/i.test(header)) return done()
    if (header === last?.header) {
      request.setDecorator('basicCredentials', last.credentials)
      return done()
    }
    read.call(scope, request, reply, () => {
      last = { header, credentials: request.getDecorator<BasicCredentials | null>('basicCredentials') }
      done()
    })
  })
}

/** Returns the HTTP Basic credentials of the request. Null when they are missing or not well-formed. */
export function basicCredentialsOf(request: FastifyRequest): BasicCredentials | null {
  const credentials = request.getDecorator<BasicCredentials | null>('basicCredentials')
  // The parser has replaced invalid UTF-8 by U+FFFD.
  return credentials && !/\ufffd/.test(credentials.username + credentials.password) ? credentials : null
}
