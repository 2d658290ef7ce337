import { connect, createServer, type Socket } from 'node:net'

/** Passes connections on to a port, and delays everything by half a round trip, as a distant server would. */
const target = Number(process.env['TARGET_PORT'])
const delay = Number(process.env['ROUND_TRIP_MS']) / 2

const server = createServer((client) => {
  const upstream = connect(target, '127.0.0.1').setNoDelay()
  client.setNoDelay()
  pass(client, upstream)
  pass(upstream, client)
})

function pass(from: Socket, to: Socket): void {
  from.on('data', (chunk) => setTimeout(() => to.write(chunk), delay))
  from.on('close', () => setTimeout(() => to.destroy(), delay))
  from.on('error', () => to.destroy())
}

process.once('SIGTERM', () => process.exit(0))
server.listen(Number(process.env['PORT']), '127.0.0.1')
