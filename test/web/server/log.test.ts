import { describe, expect, it } from 'vitest'
import { useApp } from '../../support/app.ts'

describe('the log', () => {
  const t = useApp()

  it('has one line for each request: method and path, client IP, status, and duration', async () => {
    await t.app.inject('/api/user?secret=1')
    await expect.poll(() => t.log()).toContain('request completed')
    const lines = t.log().trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line) as object)).toEqual([
      {
        level: 30,
        time: expect.any(String),
        reqId: expect.any(String),
        req: { method: 'GET', path: '/api/user', ip: '127.0.0.1' },
        res: { status: 401 },
        milliseconds: expect.any(Number),
        msg: 'request completed',
      },
    ])
  })

  it('has no token of an invitation', async () => {
    const response = await t.app.inject('/invitations/a-secret')
    expect([response.statusCode, response.headers.location]).toEqual([303, '/invitations?token=a-secret'])
    await expect.poll(() => t.log()).toContain('"path":"/invitations/…"')
    expect(t.log()).not.toContain('a-secret')
  })
})
