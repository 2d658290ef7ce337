import {
  Client,
  type OAuthClientProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { anAccount, signIn } from '../support/actors.ts'
import { open, submitConsent } from '../support/browse.ts'
import { useListeningApp } from '../support/listening.ts'
import { useMcpServer } from '../support/mcp-server.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { freePort } from '../support/program.ts'

const [port, svc, mcp] = [await freePort(), await freePort(), await freePort()]
const site = `http://127.0.0.1:${port}`

describe('a client of the Model Context Protocol', () => {
  const t = useListeningApp(svc, { BASE_URL: site })
  useMcpServer({ proxy: port, svc, mcp })

  it('finds svc from the 401 of a server, signs in for its resource, and calls it (OPENID 271–273, 282)', async () => {
    const redirectUri = 'http://127.0.0.1/callback'
    const { clientId } = await anApplication(t.db, {
      redirectUri,
      isPublic: true,
      secretHash: null,
      scopes: ['account-profile:r'],
    })
    const kept = new Map<string, unknown>()
    const keep = (name: string) => (value: unknown) => void kept.set(name, value)
    const authProvider = {
      redirectUrl: redirectUri,
      clientMetadata: { redirect_uris: [redirectUri], token_endpoint_auth_method: 'none' },
      clientInformation: () => ({ client_id: clientId }),
      tokens: () => kept.get('tokens'),
      saveTokens: keep('tokens'),
      saveCodeVerifier: keep('verifier'),
      codeVerifier: () => kept.get('verifier'),
      saveDiscoveryState: keep('discovery'),
      discoveryState: () => kept.get('discovery'),
      redirectToAuthorization: keep('link'),
    } as unknown as OAuthClientProvider
    const connect = async () => {
      const client = new Client({ name: 'test', version: '1.0.0' })
      const transport = new StreamableHTTPClientTransport(new URL(`${site}/mcp`), { authProvider })
      return { client, transport, connected: client.connect(transport) }
    }

    const first = await connect()
    await expect(first.connected).rejects.toThrow(UnauthorizedError)
    const link = kept.get('link') as URL
    expect(link.origin).toBe(site)
    expect(link.searchParams.get('resource')?.replace(/\/$/, '')).toBe(site)
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const page = await open(t, `${link.pathname}${link.search}`, cookie)
    const redirect = await submitConsent(t, page, cookie, 'approve')
    await first.transport.finishAuth(new URL(String(redirect.headers.location)).searchParams)

    const second = await connect()
    await second.connected
    const result = await second.client.callTool({ name: 'who', arguments: {} })
    expect(result.content).toEqual([{ type: 'text', text: account.username }])
    await second.client.close()
  })
})
