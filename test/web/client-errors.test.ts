import { IncomingMessage } from 'node:http'
import { connect, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, it, vi } from 'vitest'
import { requireUploadRate } from '../../src/web/client-errors.ts'
import { receiveMultipart } from '../../src/web/composer/multipart.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'

const port = await freePort()

describe('a request that cannot be read', () => {
  useListeningApp(port)

  /** Sends the bytes unchanged and returns all bytes of the response. */
  async function send(bytes: string): Promise<string> {
    const socket = connect(port, '127.0.0.1')
    // The server may close the connection before it has read all bytes.
    socket.on('error', () => {})
    socket.write(bytes)
    return await text(socket)
  }

  it.each([9_000, 12_000])('responds with a 400 page to a URL of %i bytes (OAUTH 50)', async (length) => {
    const response = await fetch(`http://127.0.0.1:${port}/oauth2/auth?state=${'x'.repeat(length)}`)
    expect(response.status).toBe(400)
    expect(await response.text()).toContain('link is not accessible')
  })

  it.each([20_000, 60_000, 200_000])('responds with 414 to one of %i bytes (OAUTH 50)', async (length) => {
    const response = await send(
      `GET /oauth2/auth?state=${'x'.repeat(length)} HTTP/1.1\r\nhost: svc.test\r\n\r\n`,
    )
    expect(response).toMatch(/^HTTP\/1\.1 414 URI Too Long\r\n/)
  })

  it('responds with 431 to headers that are too large, and 400 to bytes that are not HTTP', async () => {
    const large = `GET / HTTP/1.1\r\nhost: svc.test\r\ncookie: ${'x'.repeat(20_000)}\r\n\r\n`
    expect(await send(large)).toMatch(/^HTTP\/1\.1 431 Request Header Fields Too Large\r\n/)
    expect(await send('nonsense\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n[^{]*Bad Request$/)
  })

  it('continues to serve', async () => {
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
  })
})

describe('an upload whose client has disconnected before the body is read', () => {
  it('leaves no timer behind', () => {
    vi.useFakeTimers()
    try {
      const request = new IncomingMessage(new Socket())
      requireUploadRate(request)
      expect(vi.getTimerCount()).toBe(1)
      request.emit('close')
      expect(vi.getTimerCount()).toBe(0)
      request.destroy()
      requireUploadRate(request)
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })

  it('ends as a form, too', async () => {
    const request = new IncomingMessage(new Socket())
    request.destroy()
    const contentType = 'multipart/form-data; boundary=x'
    const receiving = receiveMultipart(
      { directory: '/nonexistent', reserveBytes: 0 },
      { request, contentType },
      { maxBytes: 1 },
    )
    await expect(receiving).rejects.toMatchObject({ code: 'ECONNRESET' })
  })
})
