import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { discover } from '../../src/commands/server-login.ts'
import { useListeningApp } from '../support/listening.ts'
import { freePort } from '../support/program.ts'
import { runCommand } from '../support/run-command.ts'

/** What a server returns by path: an object as JSON, or a URL to which it redirects. */
type Answers = Record<string, object | string>

const aboutPath = '/.well-known/oauth-protected-resource'
const metadataPath = '/.well-known/oauth-authorization-server'

describe('svc login at a server that is not trusted', async () => {
  const port = await freePort()
  useListeningApp(port, { AUTH_URL: `http://127.0.0.1:${port}/auth` })
  const victim = `http://127.0.0.1:${port}`
  let home: string
  let url: string
  let answers: Answers
  let asked: string[]
  const server = createServer((request: IncomingMessage, response) => {
    asked.push(request.url ?? '')
    const answer = answers[request.url ?? '']
    if (typeof answer === 'string') response.writeHead(302, { location: answer }).end()
    else response.writeHead(answer && !('error' in answer) ? 200 : 400).end(JSON.stringify(answer ?? {}))
  })
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'svc-test-login-'))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(async () => {
    server.close()
    await rm(home, { recursive: true })
  })

  /** Returns the answers of a server as svc gives them. */
  const honest = () => ({
    [aboutPath]: { authorization_servers: [url] } as Answers[string],
    [metadataPath]: {
      issuer: url,
      device_authorization_endpoint: `${url}/device`,
      token_endpoint: `${url}/token`,
      revocation_endpoint: `${url}/revoke`,
    } as Answers[string],
    '/device': {
      device_code: 'secret',
      user_code: 'BCDF-GHJK',
      verification_uri: `${url}/confirm`,
      verification_uri_complete: `${url}/confirm?user_code=BCDF-GHJK`,
      interval: 1,
    } as Answers[string],
    '/token': { access_token: 'a', refresh_token: 'r', expires_in: 3600 } as Answers[string],
    '/api/user': { username: 'ann' } as Answers[string],
  })

  async function logIn(changes: (given: ReturnType<typeof honest>) => Answers) {
    asked = []
    const given = honest()
    answers = { ...given, ...changes(given) }
    return runCommand(['login', url], { XDG_CONFIG_HOME: home, DATA_DIR: join(home, 'none') })
  }

  it('signs in to a server whose endpoints are all its own', async () => {
    expect(await logIn(() => ({}))).toMatchObject({ code: 0, stdout: expect.stringContaining('as ann') })
    expect(asked).toEqual([aboutPath, metadataPath, '/device', '/token', '/api/user'])
  })

  it.each(['device_authorization_endpoint', 'token_endpoint', 'revocation_endpoint', 'issuer'])(
    'refuses a server whose %s is at another one, before it asks for a code',
    async (member) => {
      const { code, stderr } = await logIn((given) => ({
        [metadataPath]: { ...(given[metadataPath] as object), [member]: `${victim}/auth/oauth2/device` },
      }))
      expect([code, stderr]).toEqual([
        1,
        `svc: ${url} names another server, ${victim}, for the login. Nothing was sent there: sign in to a server at its own URL.\n`,
      ])
      expect(asked).toEqual([aboutPath, metadataPath])
    },
  )

  it('refuses a server that lets another one sign people in', async () => {
    const { code, stderr } = await logIn(() => ({ [aboutPath]: { authorization_servers: [victim] } }))
    expect([code, stderr]).toEqual([1, expect.stringContaining(`names another server, ${victim},`)])
    expect(asked).toEqual([aboutPath])
  })

  it('refuses metadata of another issuer than the one it asked for (RFC 8414 §3.3)', async () => {
    const { code, stderr } = await logIn((given) => ({
      [metadataPath]: { ...(given[metadataPath] as object), issuer: `${url}/other` },
    }))
    expect([code, stderr]).toEqual([1, expect.stringContaining('is that of another issuer')])
  })

  it.each(['verification_uri', 'verification_uri_complete'])(
    'shows no %s of another server, and does not poll',
    async (member) => {
      const { code, stderr } = await logIn((given) => ({
        '/device': { ...(given['/device'] as object), [member]: `${victim}/device?user_code=BCDF-GHJK` },
      }))
      expect([code, stderr]).toEqual([1, expect.stringContaining(`names another server, ${victim},`)])
      expect(stderr).not.toContain('confirm the code')
      expect(asked).not.toContain('/token')
    },
  )

  it.each([aboutPath, metadataPath, '/device', '/token', '/api/user'])(
    'follows no redirect of %s',
    async (path) => {
      const { code, stderr } = await logIn(() => ({ [path]: `${victim}${metadataPath}` }))
      expect([code, stderr]).toEqual([1, expect.stringContaining('redirect')])
    },
  )

  it('lets no text of the server control the terminal', async () => {
    const evil = '\u001b]0;owned\u0007\u009b2J\u202e\nsvc: Fine.'
    const cleaned = ']0;owned2J svc: Fine.'
    const device = (given: ReturnType<typeof honest>) => ({
      '/device': {
        ...(given['/device'] as object),
        user_code: evil,
        verification_uri_complete: `${url}/${evil}`,
      },
    })
    const denied = await logIn((given) => ({
      ...device(given),
      '/token': { error: 'access_denied', error_description: evil },
    }))
    expect(denied.stderr).toBe(
      `Open ${new URL(`${url}/${evil}`).href}\nand confirm the code ${cleaned}. It is valid for 15 minutes.\nsvc: ${cleaned}\n`,
    )
    const refused = await logIn(() => ({ '/device': { error: 'x', errmsg: evil } }))
    expect(refused.stderr).toBe(`svc: The server returned 400: ${cleaned}\n`)
    const named = await logIn(() => ({ '/api/user': { username: evil } }))
    expect(named.stdout).toContain(`as ${cleaned}: `)
  })

  it('finds the endpoints of an issuer with a path', async () => {
    expect(await discover(victim)).toEqual({
      deviceEndpoint: `${victim}/auth/oauth2/device`,
      tokenEndpoint: `${victim}/auth/oauth2/token`,
      revocationEndpoint: `${victim}/auth/oauth2/revoke`,
    })
  })
})
