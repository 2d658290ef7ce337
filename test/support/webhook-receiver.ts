import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll } from 'vitest'

/** A message as a receiver got it. */
export interface Received {
  path: string
  headers: IncomingHttpHeaders
  body: string
}

/** Answers a message. */
type Answer = (response: ServerResponse, received: Received) => void

/** A server that gets the messages of webhooks. Each path is a receiver of its own. */
export interface ReceivingServer {
  /** Returns the URL of a receiver, which answers as it is told: with 204 until then. */
  receiver: (path: string, answer?: Answer) => string
  /** The messages to a receiver, in their order. */
  received: (path: string) => Received[]
  /** Waits until a receiver has got this many messages, and returns them. */
  waitFor: (path: string, count: number) => Promise<Received[]>
}

/** The settings of a svc that may send messages to this machine, if an operator added the webhook. */
export const webhooksHere = { OUTBOUND_HTTP: 'true', OUTBOUND_PRIVATE_HOSTS: 'localhost,127.0.0.1' }

/** Runs a server of receivers for one test file. */
export function useReceivers(): ReceivingServer {
  const answers = new Map<string, Answer>()
  const messages: Received[] = []
  let told = () => {}
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const path = (request.url ?? '').slice(1)
      const received = { path, headers: request.headers, body: Buffer.concat(chunks).toString() }
      messages.push(received)
      const answer = answers.get(path) ?? ((to: ServerResponse) => to.writeHead(204).end())
      answer(response, received)
      told()
    })
  })
  beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
  afterAll(async () => {
    server.closeAllConnections()
    await promisify(server.close.bind(server))()
  })
  const received = (path: string) => messages.filter((message) => message.path === path)
  return {
    received,
    receiver(path, answer) {
      if (answer) answers.set(path, answer)
      return `http://localhost:${(server.address() as AddressInfo).port}/${path}`
    },
    async waitFor(path, count) {
      while (received(path).length < count) {
        await new Promise<void>((resolve) => {
          told = resolve
        })
      }
      return received(path)
    },
  }
}

/** Verifies a message with a library of others, and returns its body. Throws for a wrong signature. */
export function verify(secret: string, { headers, body }: Received): Record<string, unknown> {
  return new Webhook(secret).verify(body, headers as Record<string, string>) as Record<string, unknown>
}
