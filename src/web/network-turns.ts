import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RouteGenericInterface,
  RouteHandlerMethod,
} from 'fastify'
import { networkOf } from '../domain/client-ip.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { type InTurn, openTurns, type TurnLimits } from '../domain/turns.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Runs a page or an endpoint of the API when the network has a turn. */
    inTurn: InTurn
  }
}

/**
 * How many pages and API requests are handled and wait at once. Each blocks the event loop for a few milliseconds, and
 * nothing else may wait longer than that: pulls, token requests and health checks take no turns. A browser that opens
 * many tabs gets all of them, a few at a time.
 */
const limits = { atOnce: 32, atOnceOfOwner: 4, waiting: 1000, waitingOfOwner: 200, waitingSeconds: 10 }
/** The same for heavy pages. They have their own turns, because each can take a second. */
const heavyLimits = { atOnce: 4, atOnceOfOwner: 2, waiting: 200, waitingOfOwner: 50 }

type Handler<Route extends RouteGenericInterface> = (
  request: FastifyRequest<Route>,
  reply: FastifyReply,
) => Promise<FastifyReply>

/** Makes the requests of a handler wait for their turn. */
export type HeavyPages = <Route extends RouteGenericInterface>(handler: Handler<Route>) => Handler<Route>

/** Handlers that take no turn, or take it themselves. */
const exempt = new WeakSet<object>()

/**
 * Opens the turns of pages and of the API. One network has a few at a time, so a client with many connections cannot take
 * those of others.
 */
export function openNetworkTurns(app: FastifyInstance): void {
  app.decorate('inTurn', turnsOfNetworks(limits))
}

/**
 * Makes the requests of all routes that the scope adds from now on wait for their turn. A turn begins after the body has
 * arrived, and ends when the response was sent.
 */
export function handleInTurn(scope: FastifyInstance): void {
  scope.addHook('onRoute', (route) => {
    const { handler } = route
    if (exempt.has(handler)) return
    const changed: RouteHandlerMethod = function (request, reply) {
      return scope.inTurn(networkOf(request.ip), async () => handler.call(this, request, reply))
    }
    route.handler = changed
  })
}

/** Marks a handler that takes no turn, because it waits long for its client or for another server. */
export function withoutTurn<Handler extends object>(handler: Handler): Handler {
  exempt.add(handler)
  return handler
}

/**
 * Makes a handler in two parts: `ask` may wait for another server, and takes no turn meanwhile. `show` then takes a turn, and
 * gets what `ask` has returned.
 */
export function askFirst<Route extends RouteGenericInterface, Found>(
  scope: FastifyInstance,
  ask: (request: FastifyRequest<Route>) => Promise<Found>,
  show: (found: Found, request: FastifyRequest<Route>, reply: FastifyReply) => Promise<FastifyReply>,
): Handler<Route> {
  return withoutTurn(async (request, reply) => {
    const found = await ask(request)
    return scope.inTurn(networkOf(request.ip), () => show(found, request, reply))
  })
}

/** Opens the turns of pages that take long to make. */
export function openHeavyPages(): HeavyPages {
  const inTurn = turnsOfNetworks(heavyLimits)
  return (handler) =>
    withoutTurn((request, reply) => inTurn(networkOf(request.ip), () => handler(request, reply)))
}

/**
 * Opens turns whose owners are networks. They refuse with 429 when a network has too many requests, and with 503 when all
 * together have.
 */
function turnsOfNetworks(bounds: TurnLimits): InTurn {
  return openTurns(bounds, (whose) =>
    whose === 'owner'
      ? new Refusal(
          errcode.resourceExhausted,
          'your network sends too many requests at once: wait a moment and try again',
          { retryAfterSeconds: 2 },
        )
      : new Refusal(errcode.unavailable, 'the server is busy: wait a moment and try again'),
  )
}
