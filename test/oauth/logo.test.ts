import { describe, expect, it, vi } from 'vitest'
import { useApp } from '../support/app.ts'
import { anApplication, pixel } from '../support/oauth-actors.ts'

describe('GET /applications/:clientId/logo', () => {
  const t = useApp()

  it('returns the image with its own type, and nothing else', async () => {
    const { clientId } = await anApplication(t.db)
    const logo = await t.app.inject(`/applications/${clientId}/logo`)
    expect(logo.statusCode).toBe(200)
    expect(logo.rawPayload).toEqual(pixel)
    expect(logo.headers).toMatchObject({
      'content-type': 'image/png',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
      'cache-control': 'public, max-age=3600',
    })
  })

  it('responds with 304 to a browser that has it', async () => {
    const { clientId } = await anApplication(t.db)
    const url = `/applications/${clientId}/logo`
    const etag = String((await t.app.inject(url)).headers.etag)
    const again = await t.app.inject({ url, headers: { 'if-none-match': etag } })
    expect(again.statusCode).toBe(304)
    expect(again.body).toBe('')
    // A proxy that compresses makes the tag weak, and a cache may send the tags of several copies.
    const weak = await t.app.inject({ url, headers: { 'if-none-match': `"other", W/${etag}` } })
    expect(weak.statusCode).toBe(304)
    expect((await t.app.inject({ url, headers: { 'if-none-match': '"other"' } })).statusCode).toBe(200)
  })

  it('returns the same headers for HEAD, without reading the image', async () => {
    const { clientId } = await anApplication(t.db)
    const url = `/applications/${clientId}/logo`
    const queries = vi.spyOn(t.db, 'query')
    const get = await t.app.inject(url)
    const head = await t.app.inject({ url, method: 'HEAD' })
    const { date: _, 'x-request-id': _id, ...headers } = get.headers
    expect([head.statusCode, head.body]).toEqual([200, ''])
    expect(head.headers).toMatchObject(headers)
    expect(queries.mock.calls).toMatchObject([[{ name: 'find-logo' }], [{ name: 'find-logo-head' }]])
    queries.mockRestore()
    expect((await t.app.inject({ url: '/applications/nobody12/logo', method: 'HEAD' })).statusCode).toBe(404)
  })

  it('responds with 404 for an application that is unknown or pending', async () => {
    const { clientId } = await anApplication(t.db, { status: 'pending' })
    for (const id of [clientId, 'nobody12', '%00', 'x'.repeat(400)]) {
      expect((await t.app.inject(`/applications/${id}/logo`)).statusCode).toBe(404)
    }
  })
})
