import type { FastifyReply, FastifyRequest, RouteGenericInterface } from 'fastify'
import { networkOf } from '../domain/client-ip.ts'
import { openTurns } from '../domain/turns.ts'
import { PageError } from './page-error.ts'

/**
 * How many heavy pages are made and wait at once. Each blocks the event loop for a few milliseconds. A client with ten
 * connections gets all of its pages, two at a time.
 */
const limits = { atOnce: 4, atOnceOfOwner: 2, waiting: 200, waitingOfOwner: 50 }
const retryAfter = { 'retry-after': '2' }

type Handler<Route extends RouteGenericInterface> = (
  request: FastifyRequest<Route>,
  reply: FastifyReply,
) => Promise<FastifyReply>

/** Makes the requests of a handler wait for their turn. */
export type HeavyPages = <Route extends RouteGenericInterface>(handler: Handler<Route>) => Handler<Route>

/**
 * Opens the turns of pages that take long to make. One network has two turns at a time, so it cannot take
 * those of others.
 * Throws a page with 429 when too many requests of the network wait, and with 503 when too many wait in all.
 */
export function openHeavyPages(): HeavyPages {
  const inTurn = openTurns(limits, (whose) =>
    whose === 'owner'
      ? new PageError(
          429,
          'Your network requests too many pages at once. Wait a moment and try again.',
          retryAfter,
        )
      : new PageError(503, 'The server is busy. Wait a moment and try again.', retryAfter),
  )
  return (handler) => (request, reply) => inTurn(networkOf(request.ip), () => handler(request, reply))
}
