import { type IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'

/**
 * Node invites the body of every request with `Expect: 100-continue` before anyone has looked at it. This response
 * keeps the invitation back until `invite` is called (RFC 9110 §10.1.1). A class, for it is what Node lets us replace
 * on every socket that Fastify opens.
 */
export class PatientResponse<
  Request extends IncomingMessage = IncomingMessage,
> extends ServerResponse<Request> {
  #isAsked = false

  override writeContinue(): void {
    this.#isAsked = true
  }

  /** Whether the client still waits for an invitation. */
  get isAsked(): boolean {
    return this.#isAsked
  }

  /** Sends `100 Continue` if the client waits for it. */
  invite(): void {
    if (this.#isAsked) super.writeContinue()
    this.#isAsked = false
  }
}

/**
 * Invites bodies only of requests that have passed every onRequest hook: what is refused there, an upload without
 * rights for example, is refused before a byte of its body travels.
 */
export function inviteAdmittedBodies(app: FastifyInstance): void {
  app.addHook('preParsing', async (_request, reply) => {
    if (reply.raw instanceof PatientResponse) reply.raw.invite()
  })
}
