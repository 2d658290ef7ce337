import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/**
 * Node sends `100 Continue` to every request with `Expect: 100-continue` before any handler has seen it. This response
 * class waits until `invite` is called (RFC 9110 §10.1.1). It also knows when every earlier response of its connection is
 * sent. It is a class because Node takes a response class as its option.
 */
export class PatientResponse<
  Request extends IncomingMessage = IncomingMessage,
> extends ServerResponse<Request> {
  #isAsked = false
  #start: (() => void) | undefined

  /** Whether every earlier response of the connection is sent. */
  get isFirst(): boolean {
    return this.socket !== null
  }

  /** Calls `start` when every earlier response of the connection is sent. Call it only while `isFirst` is false. */
  whenFirst(start: () => void): void {
    this.#start = start
  }

  /** Node gives the connection to the next response when it has sent the one before. */
  override assignSocket(socket: Socket): void {
    super.assignSocket(socket)
    this.#start?.()
    this.#start = undefined
  }

  override writeContinue(): void {
    this.#isAsked = true
  }

  /** Whether the client still waits for `100 Continue`. */
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
 * Sends `100 Continue` only after every onRequest hook has passed. So a request that a hook refuses, such as an upload
 * without permission, is refused before the client sends its body.
 */
export function inviteAdmittedBodies(app: FastifyInstance): void {
  app.addHook('preParsing', (_request, reply, _payload, done) => {
    if (reply.raw instanceof PatientResponse) reply.raw.invite()
    done()
  })
}
