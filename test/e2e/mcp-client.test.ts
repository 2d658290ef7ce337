import { readFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import {
  Client,
  type OAuthClientProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import { describe, expect, it, vi } from 'vitest'
import { anAccount, signIn } from '../support/actors.ts'
import { open, submitConsent } from '../support/browse.ts'
import { documentOf, documentsHere, sendDocument } from '../support/document-server.ts'
import { useListeningApp } from '../support/listening.ts'
import { useMcpServer } from '../support/mcp-server.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { freePort } from '../support/program.ts'

const [port, svc, mcp] = [await freePort(), await freePort(), await freePort()]
const site = `http://127.0.0.1:${port}`

describe('a client of the Model Context Protocol', () => {
  const t = useListeningApp(svc, {
    BASE_URL: site,
    CLIENT_METADATA_DOCUMENTS: 'open',
    ...documentsHere,
  })
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

  it('signs in with a client metadata document as its client id (OPENID 277–281)', async () => {
    const redirectUri = 'http://127.0.0.1:33418/callback'
    const pem = await readFile(new URL('../fixtures/loopback-tls.pem', import.meta.url))
    const documents = createServer({ key: pem, cert: pem }, (request, response) => {
      const url = `https://${request.headers.host}${request.url}`
      sendDocument(response, documentOf(url, { redirect_uris: [redirectUri] }))
    })
    await new Promise<void>((resolve) => documents.listen(0, '127.0.0.1', resolve))
    const clientId = `https://127.0.0.1:${(documents.address() as AddressInfo).port}/client.json`
    // The certificate is of no authority.
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    try {
      const kept = new Map<string, unknown>()
      const keep = (name: string) => (value: unknown) => void kept.set(name, value)
      const authProvider = {
        redirectUrl: redirectUri,
        clientMetadataUrl: clientId,
        clientMetadata: { redirect_uris: [redirectUri], token_endpoint_auth_method: 'none' },
        clientInformation: () => kept.get('client'),
        saveClientInformation: keep('client'),
        tokens: () => kept.get('tokens'),
        saveTokens: keep('tokens'),
        saveCodeVerifier: keep('verifier'),
        codeVerifier: () => kept.get('verifier'),
        saveDiscoveryState: keep('discovery'),
        discoveryState: () => kept.get('discovery'),
        redirectToAuthorization: keep('link'),
      } as unknown as OAuthClientProvider
      const connect = () => {
        const client = new Client({ name: 'test', version: '1.0.0' })
        const transport = new StreamableHTTPClientTransport(new URL(`${site}/mcp`), { authProvider })
        return { client, transport, connected: client.connect(transport) }
      }
      const first = connect()
      await expect(first.connected).rejects.toThrow(UnauthorizedError)
      expect(kept.get('client')).toMatchObject({ client_id: clientId })
      const link = kept.get('link') as URL
      const account = await anAccount(t.db)
      const cookie = await signIn(t.app, account)
      const page = await open(t, `${link.pathname}${link.search}`, cookie)
      expect(page.body).toContain('This application is not reviewed.')
      const redirect = await submitConsent(t, page, cookie, 'approve')
      await first.transport.finishAuth(new URL(String(redirect.headers.location)).searchParams)

      const second = connect()
      await second.connected
      const result = await second.client.callTool({ name: 'who', arguments: {} })
      expect(result.content).toEqual([{ type: 'text', text: account.username }])
      await second.client.close()
    } finally {
      vi.unstubAllEnvs()
      await new Promise((resolve) => documents.close(resolve))
    }
  })
})
