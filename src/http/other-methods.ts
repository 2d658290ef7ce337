import type { FastifyInstance } from 'fastify'

/**
 * Answers 405, before a body is read, to every method that the route does not have. `refusal` makes the scope's own
 * error from the value of the Allow header.
 */
export function refuseOtherMethods(
  scope: FastifyInstance,
  url: string,
  allowed: readonly string[],
  refusal: (allow: string) => Error,
): void {
  const refuse = async () => {
    throw refusal(allowed.join(', '))
  }
  const method = scope.supportedMethods.filter((one) => !allowed.includes(one))
  scope.route({ method, url, onRequest: refuse, handler: refuse, exposeHeadRoute: false })
}
