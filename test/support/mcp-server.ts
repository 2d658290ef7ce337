import { type ChildProcess, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createServer, request as send } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll } from 'vitest'
import { root } from './document-commands.ts'

/**
 * Starts the server of docs/agents.md, and a proxy that passes `/mcp` to it and every other request to svc. Its URL is the one
 * of svc.
 */
export function useMcpServer(ports: { proxy: number; svc: number; mcp: number }): void {
  const proxy = createServer((request, response) => {
    const { method, url: path, headers } = request
    const port = path === '/mcp' ? ports.mcp : ports.svc
    // A connection for each request: the server closes one that was idle for 5 seconds, maybe just as a request is sent.
    const passed = send({ host: '127.0.0.1', port, method, path, headers, agent: false }, (received) => {
      response.writeHead(received.statusCode ?? 502, received.headers)
      received.pipe(response)
    })
    passed.on('error', () => response.writeHead(502).end())
    request.pipe(passed)
  })
  let server: ChildProcess | undefined
  beforeAll(async () => {
    await new Promise<void>((resolve) => proxy.listen(ports.proxy, '127.0.0.1', resolve))
    const [, program = ''] = /^```js\n(.*?)^```/ms.exec(await readFile(`${root}docs/agents.md`, 'utf8')) ?? []
    const env = { ...process.env, SVC: `http://127.0.0.1:${ports.proxy}`, PORT: String(ports.mcp) }
    server = spawn(process.execPath, ['--input-type=module', '--eval', program], { env, stdio: 'inherit' })
    while ((await fetch(`http://127.0.0.1:${ports.mcp}/mcp`).catch(() => null)) === null) await sleep(50)
  })
  afterAll(async () => {
    server?.kill()
    await new Promise<void>((resolve) => proxy.close(() => resolve()))
  })
}
