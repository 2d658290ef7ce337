import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { storedAccount } from '../../../support/account-rows.ts'
import { anAccount, post } from '../../../support/actors.ts'
import { anAdministrator } from '../../../support/admin-actors.ts'
import { useListeningApp } from '../../../support/listening.ts'
import { freePort } from '../../../support/program.ts'

const port = await freePort()

describe('a POST below /admin whose body arrives late', () => {
  const t = useListeningApp(port)

  it.each(['unmake-admin', 'disable'])(
    'is refused when its administrator was removed meanwhile (%s)',
    async (act) => {
      const [removed, another] = [await anAdministrator(t), await anAdministrator(t)]
      const friend = await anAccount(t.db)
      const body = new URLSearchParams({ csrf_token: removed.csrf_token, act: 'make-admin' }).toString()
      const socket = connect(port, '127.0.0.1')
      const response = text(socket)
      const head = [
        `POST /admin/accounts/${friend.username} HTTP/1.1`,
        `Host: 127.0.0.1:${port}`,
        `Cookie: ${removed.cookie}`,
        'Content-Type: application/x-www-form-urlencoded',
        `Content-Length: ${body.length}`,
        'Expect: 100-continue',
        'Connection: close',
      ]
      socket.write(`${head.join('\r\n')}\r\n\r\n`)
      // The server invites the body of a request that every check before the body has accepted.
      await once(socket, 'data')
      socket.write(body.slice(0, -1))
      const { csrf_token, cookie } = another
      const removal = await post(t.app, `/admin/accounts/${removed.account.username}`, cookie, {
        csrf_token,
        act,
      })
      expect(removal.statusCode).toBe(303)
      socket.write(body.slice(-1))
      expect(await response).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 404 Not Found\r\n/)
      expect(await storedAccount(t.db, friend)).toMatchObject({ isAdmin: false })
    },
  )
})
