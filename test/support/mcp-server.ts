import { createServer, type IncomingMessage, type ServerResponse, request as send } from 'node:http'
import { afterAll, beforeAll } from 'vitest'

/**
 * Starts a server that has `/mcp`, a server of the Model Context Protocol, and passes every other request to svc, as a reverse
 * proxy does. Its one tool tells who calls it: it asks the API with the token of the request.
 */
export function useMcpServer(port: number, svcPort: number): void {
  const site = `http://127.0.0.1:${port}`
  const server = createServer((request, response) => {
    if (request.url === '/mcp')
      answer(request, response, site).catch((error: unknown) => response.writeHead(500).end(String(error)))
    else pass(request, response, svcPort)
  })
  beforeAll(() => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve)))
  afterAll(() => new Promise<void>((resolve) => server.close(() => resolve())))
}

function pass(request: IncomingMessage, response: ServerResponse, port: number): void {
  const { method, url: path, headers } = request
  const passed = send({ host: '127.0.0.1', port, method, path, headers }, (received) => {
    response.writeHead(received.statusCode ?? 502, received.headers)
    received.pipe(response)
  })
  passed.on('error', () => response.writeHead(502).end())
  request.pipe(passed)
}

async function answer(request: IncomingMessage, response: ServerResponse, site: string): Promise<void> {
  const authorization = request.headers.authorization ?? ''
  const user = await fetch(`${site}/api/user`, { headers: { authorization } })
  if (user.status !== 200) {
    const metadata = `${site}/.well-known/oauth-protected-resource`
    const challenge = `Bearer scope="account-profile:r", resource_metadata="${metadata}"`
    response.writeHead(401, { 'www-authenticate': challenge }).end()
    return
  }
  const { username } = (await user.json()) as { username: string }
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString() || '{}') as {
    id?: number
    method?: string
    params?: { protocolVersion?: string }
  }
  const results: Record<string, unknown> = {
    initialize: {
      protocolVersion: params?.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'who', version: '1.0.0' },
    },
    'tools/call': { content: [{ type: 'text', text: username }] },
  }
  if (id === undefined) {
    response.writeHead(request.method === 'POST' ? 202 : 405).end()
    return
  }
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result: results[method ?? ''] ?? {} }))
}
