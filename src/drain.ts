import type { FastifyInstance } from 'fastify'

/**
 * Makes `app.close()` let the requests that run finish first, for at most so many seconds; what then still runs is
 * cut off. Fastify waits by itself only on its first socket, and `localhost` is two (127.0.0.1 and ::1). It must be
 * called before the routes are registered.
 */
export function drainOnClose(app: FastifyInstance, seconds: number): void {
  const running = new Set<Promise<void>>()

  app.addHook('onRequest', async (_request, reply) => {
    const ended = new Promise<void>((resolve) => reply.raw.once('close', resolve))
    running.add(ended)
    ended.then(
      () => running.delete(ended),
      () => {},
    )
  })

  app.addHook('preClose', async () => {
    app.server.close()
    let timer: NodeJS.Timeout | undefined
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, seconds * 1000)
    })
    await Promise.race([Promise.all(running), deadline])
    clearTimeout(timer)
    if (running.size > 0) app.server.closeAllConnections()
  })
}
