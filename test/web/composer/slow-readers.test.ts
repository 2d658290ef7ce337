import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, it, vi } from 'vitest'
import { useApp } from '../../support/app.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { has } from '../../support/requires.ts'
import { craftZip } from '../../support/zip.ts'

const t = useApp()
const mebibyte = 1024 * 1024
const count = 32

/**
 * Clients with a receive buffer of a few KiB, which read nothing until `readAll`. Node cannot set the size of the buffer,
 * and with the usual one the kernel takes an archive of this size at once.
 */
const clientProgram = `
import hashlib, socket, sys
clients = []
for line in sys.stdin:
    if line == "read\\n": break
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", int(sys.argv[1])))
    client.sendall(line[:-1].replace("|", "\\r\\n").encode() + b"\\r\\nConnection: close\\r\\n\\r\\n")
    clients.append(client)
for client in clients:
    response = client.makefile("rb").read()
    print(hashlib.sha256(response[response.index(b"\\r\\n\\r\\n") + 4:]).hexdigest())
`

function slowClients(port: number) {
  const child = spawn('python3', ['-c', clientProgram, String(port)], { stdio: ['pipe', 'pipe', 'inherit'] })
  return {
    request(head: string) {
      child.stdin.write(`${head.replaceAll('\r\n', '|')}\n`)
    },
    /** Reads all responses, and returns the SHA-256 of each body. */
    async readAll(): Promise<string[]> {
      child.stdin.end('read\n')
      return (await text(child.stdout)).trim().split('\n')
    },
  }
}

describe.skipIf(!has('python3'))('clients that read archives slowly (needs python3)', () => {
  it('hold a bounded part of memory, and get the right bytes', async () => {
    const { push, path, authorization } = await aPublisher(t)
    const publish = async (version: string, bytes: number) => {
      const noise = randomBytes(bytes)
      const manifest = { name: 'composer.json', content: '{"name":"acme/lib"}' }
      const payload = craftZip([manifest, { name: 'noise', content: noise, method: 0 }])
      const response = await push(version, { payload })
      expect(response.statusCode).toBe(201)
      const { sha256 } = response.json()
      return { sha256: sha256 as string, size: payload.length, url: `dist/acme/lib/${version}/${sha256}.zip` }
    }
    const archives: Awaited<ReturnType<typeof publish>>[] = []
    for (let index = 0; index < count; index += 1) archives.push(await publish(`1.0.${index}`, 3_900_000))
    const responses: ServerResponse[] = []
    t.app.server.on('request', ({ url }, response) => {
      if (url?.includes('/lib/1.0.')) responses.push(response)
    })
    await t.app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = t.app.server.address() as AddressInfo
    const clients = slowClients(port)
    for (const [index, { url }] of archives.entries()) {
      clients.request(`GET ${path}${url} HTTP/1.1\r\nHost: svc.test\r\nAuthorization: ${authorization}`)
      await vi.waitFor(() => expect(responses[index]?.headersSent).toBe(true), 60_000)
    }
    const held = responses.reduce((sum, { writableLength }) => sum + writableLength, 0)
    // Some archives are sent from memory. The others are streamed.
    expect(held / mebibyte).toBeGreaterThan(32)
    expect(held / mebibyte).toBeLessThan(64 + count / 4)
    expect(await clients.readAll()).toEqual(archives.map(({ sha256 }) => sha256))
  })
})
