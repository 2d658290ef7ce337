import { connect } from 'node:net'
import type { Load, LoadResult } from './load.ts'

/** The longest time of a run. */
const maxSeconds = 60

interface LoadResponse {
  status: number
  body: Buffer
}

process.on('message', (load: Load) => {
  drive(load).then(
    (result) => process.send?.(result),
    (error: Error) => process.send?.({ error: error.message }),
  )
})

async function drive(load: Load): Promise<LoadResult> {
  const connections = await Promise.all(Array.from({ length: load.connections }, () => open(load.port)))
  const milliseconds: number[] = []
  const bodies: string[] = []
  const start = performance.now()
  let next = 0

  async function loop(connection: Connection): Promise<void> {
    while (next < load.count && performance.now() - start < maxSeconds * 1000) {
      const turn = next++
      const request = load.requests[turn % load.requests.length] ?? ''
      const asked = performance.now()
      const { status, body } = await connection.ask(request)
      milliseconds.push(performance.now() - asked)
      if (status !== load.status) throw new Error(`${request.slice(0, 80)}: ${status} ${body.toString()}`)
      if (load.keepBodies) bodies[turn] = body.toString()
    }
  }

  await Promise.all(connections.map(loop))
  const seconds = (performance.now() - start) / 1000
  for (const { close } of connections) close()
  milliseconds.sort((a, b) => a - b)
  const at = (part: number) => milliseconds[Math.floor((milliseconds.length - 1) * part)] ?? 0
  const [medianMs, p95Ms, p99Ms] = [at(0.5), at(0.95), at(0.99)]
  return { count: milliseconds.length, seconds, medianMs, p95Ms, p99Ms, bodies }
}

interface Connection {
  ask: (request: string) => Promise<LoadResponse>
  close: () => void
}

/** Opens a keep-alive connection. It parses only the necessary parts of HTTP, to leave processor time to the server. */
async function open(port: number): Promise<Connection> {
  const socket = connect(port, '127.0.0.1').setNoDelay()
  let waiting: { resolve: (response: LoadResponse) => void; reject: (error: Error) => void } | null = null
  let received: Buffer = Buffer.alloc(0)
  const fail = (error: Error) => waiting?.reject(error)
  socket.on('error', fail)
  socket.on('close', () => fail(new Error('the server closed the connection')))
  socket.on('data', (chunk) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    const response = readResponse(received)
    if (!response) return
    received = Buffer.alloc(0)
    waiting?.resolve(response)
  })
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return {
    ask: (request) =>
      new Promise((resolve, reject) => {
        waiting = { resolve, reject }
        socket.write(request, 'latin1')
      }),
    close: () => socket.destroy(),
  }
}

/** Reads a response. Null until all of it has arrived. */
function readResponse(received: Buffer): LoadResponse | null {
  const end = received.indexOf('\r\n\r\n')
  if (end === -1) return null
  const head = received.toString('latin1', 0, end)
  const status = Number(head.slice(9, 12))
  const length = status === 304 ? '0' : /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length === undefined) throw new Error(`a response without content-length: ${head}`)
  const body = received.subarray(end + 4)
  return body.length < Number(length) ? null : { status, body }
}
