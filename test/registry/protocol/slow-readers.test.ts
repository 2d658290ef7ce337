import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { describe, expect, it, vi } from 'vitest'
import { useApp } from '../../support/app.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp()
const mebibyte = 1024 * 1024
const count = 32

/** Reads what a client gets to its end, and returns the last bytes. */
async function readLast(socket: Socket, size: number): Promise<Buffer> {
  return Buffer.concat(await socket.toArray()).subarray(-size)
}

describe('clients that read archives slowly', () => {
  it('hold a bounded part of memory, and get the right bytes', { timeout: 60_000 }, async () => {
    const { push, path, authorization } = await aPublisher(t)
    const publish = async (version: string, bytes: number) => {
      const noise = randomBytes(bytes)
      const payload = aZip({ 'composer.json': '{"name":"acme/lib"}', noise })
      const response = await push(version, { payload })
      expect(response.statusCode).toBe(201)
      const { sha256 } = response.json()
      return { sha256: sha256 as string, size: payload.length, url: `dist/acme/lib/${version}/${sha256}.zip` }
    }
    // The kernel takes the first megabytes of a connection. They come from an archive that is always streamed.
    const first = await publish('0.1.0', 5_000_000)
    const archives: Awaited<ReturnType<typeof publish>>[] = []
    for (let index = 0; index < count; index += 1) archives.push(await publish(`1.0.${index}`, 3_900_000))
    const responses: ServerResponse[] = []
    t.app.server.on('request', ({ url }, response) => {
      if (url?.includes('/lib/1.0.')) responses.push(response)
    })
    await t.app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = t.app.server.address() as AddressInfo
    const headOf = (url: string, end = '') =>
      `GET ${path}${url} HTTP/1.1\r\nHost: svc.test\r\nAuthorization: ${authorization}\r\n${end}\r\n`
    const clients: Socket[] = []
    for (const [index, { url }] of archives.entries()) {
      const client = connect(port, '127.0.0.1')
      clients.push(client)
      await once(client, 'connect')
      client.write(headOf(first.url).repeat(2) + headOf(url, 'Connection: close\r\n'))
      await vi.waitFor(() => expect(responses[index]?.headersSent).toBe(true), 10_000)
    }
    const held = responses.reduce((sum, { writableLength }) => sum + writableLength, 0)
    // Some archives are sent from memory. The others are streamed.
    expect(held / mebibyte).toBeGreaterThan(32)
    expect(held / mebibyte).toBeLessThan(64 + count / 4)
    const bodies = await Promise.all(
      clients.map((client, index) => readLast(client, archives[index]?.size as number)),
    )
    const hashes = bodies.map((body) => createHash('sha256').update(body).digest('hex'))
    expect(hashes).toEqual(archives.map(({ sha256 }) => sha256))
  })
})
