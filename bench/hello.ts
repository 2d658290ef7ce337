import Fastify from 'fastify'

/** A Fastify server with one route that sends a constant. */
const app = Fastify()
app.get('/', async () => ({ hello: 'world' }))
process.once('SIGTERM', () => void app.close())
await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) })
