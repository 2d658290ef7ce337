import type { FastifyInstance } from 'fastify'

/**
 * Answers 404, before a body is read, to every path below the scope's prefix that nothing else answers. As routes, not
 * as a not-found handler: a page's `/:group/:name` would otherwise take these paths for a repository's.
 */
export function refuseOtherPaths(scope: FastifyInstance, refusal: () => Error): void {
  const refuse = async () => {
    throw refusal()
  }
  for (const url of ['/', '/*']) scope.all(url, { onRequest: refuse, handler: refuse })
}
