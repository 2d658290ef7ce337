import { type AddressInfo, connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { useApp } from '../../support/app.ts'

const warning = 'TRUST_PROXY does not trust'

describe('a forwarded header from a peer that TRUST_PROXY does not trust', () => {
  const t = useApp({ TRUST_PROXY: '192.0.2.1' })
  const warnings = () => t.log().split(warning).length - 1

  it('is warned about once', async () => {
    await t.app.inject('/login')
    expect(warnings()).toBe(0)
    for (const headers of [{ 'x-forwarded-for': '198.51.100.7' }, { forwarded: 'for=198.51.100.7' }])
      for (let n = 0; n < 3; n += 1) await t.app.inject({ url: '/login', headers })
    expect(warnings()).toBe(1)
    expect(t.log()).toContain('all people behind it share one network')
  })
})

describe('a forwarded header from a trusted proxy', () => {
  const t = useApp({ TRUST_PROXY: '127.0.0.1' })

  it('is not warned about', async () => {
    await t.app.inject({ url: '/login', headers: { 'x-forwarded-for': '198.51.100.7' } })
    expect(t.log()).not.toContain(warning)
  })
})

describe('a client that disconnects at once', () => {
  const t = useApp({ BASE_URL: 'http://svc.localhost' })
  let port: number

  beforeAll(async () => {
    await t.app.listen({ host: '127.0.0.1', port: 0 })
    port = (t.app.server.address() as AddressInfo).port
  })

  it.each(['/login?page=/x', '/login/passkey', '/oauth2/auth?client_id=x', '/settings/account'])(
    'causes no error of the database with GET %s',
    async (path) => {
      for (let n = 0; n < 30; n += 1) {
        const socket = connect(port, '127.0.0.1')
        socket.on('error', () => {})
        socket.on('connect', () => {
          socket.write(`GET ${path} HTTP/1.1\r\nHost: svc\r\n\r\n`, () => socket.resetAndDestroy())
        })
      }
      await setTimeout(300)
      const errors = t
        .log()
        .split('\n')
        .filter((line) => line.includes('"level":50'))
      expect(errors).toEqual([])
    },
  )
})
