import { describe, expect, it } from 'vitest'
import { findApplicationByClientId } from '../../../src/oauth/applications.ts'
import { anAccount, anAdminToken, aPersonalToken } from '../../support/actors.ts'
import { callApi } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { aWaitingDocument } from '../../support/document-server.ts'

describe('/api/client-documents (OPENID 276)', () => {
  const t = useApp()

  async function aReviewer() {
    const account = await anAccount(t.db, { isAdmin: true })
    return anAdminToken(t.db, account, { scopes: ['group-manage:rw'] })
  }

  it('lists what waits, approves it, and then has nothing to decide', async () => {
    const token = await aReviewer()
    const { id, clientId, askedBy } = await aWaitingDocument(t.db, { name: 'Build Agent' })
    const listed = (await callApi(t, token, 'GET', '/api/client-documents')).json()
    expect(listed).toContainEqual(
      expect.objectContaining({ id: Number(id), client_id: clientId, state: 'waiting', asked_by: askedBy }),
    )
    const approved = await callApi(t, token, 'POST', `/api/client-documents/${id}/approve`)
    expect(approved.json()).toMatchObject({ client_id: clientId, public: true, unreviewed: false })
    const url = `/api/applications/${encodeURIComponent(clientId)}`
    expect((await callApi(t, token, 'GET', url)).json()).toMatchObject({ status: 'approved', accounts: 0 })
    expect((await callApi(t, token, 'POST', `/api/client-documents/${id}/approve`)).statusCode).toBe(404)
  })

  it('rejects with a reason, and may approve later', async () => {
    const token = await aReviewer()
    const { id, clientId } = await aWaitingDocument(t.db, { name: 'Odd Agent' })
    const rejected = await callApi(t, token, 'POST', `/api/client-documents/${id}/reject`, { reason: 'No' })
    expect(rejected.json()).toMatchObject({ state: 'rejected', reason: 'No' })
    const listed = (await callApi(t, token, 'GET', '/api/client-documents?state=rejected')).json()
    expect(listed).toContainEqual(expect.objectContaining({ client_id: clientId }))
    expect((await callApi(t, token, 'POST', `/api/client-documents/${id}/reject`)).statusCode).toBe(404)
    expect((await callApi(t, token, 'POST', `/api/client-documents/${id}/approve`)).statusCode).toBe(200)
  })

  it('refuses a name that looks like that of another application, and lets the document wait', async () => {
    const token = await aReviewer()
    const [first, second] = [
      await aWaitingDocument(t.db, { name: 'Same Agent' }),
      await aWaitingDocument(t.db, { name: 'same agent' }),
    ]
    expect((await callApi(t, token, 'POST', `/api/client-documents/${first.id}/approve`)).statusCode).toBe(
      200,
    )
    const refused = await callApi(t, token, 'POST', `/api/client-documents/${second.id}/approve`)
    expect(refused.statusCode).toBe(400)
    expect(await findApplicationByClientId(t.db, second.clientId)).toBeNull()
    expect((await callApi(t, token, 'GET', '/api/client-documents')).json()).toContainEqual(
      expect.objectContaining({ client_id: second.clientId }),
    )
  })

  it('is for administrators only, and the document decides about the redirect URI', async () => {
    const { id, clientId } = await aWaitingDocument(t.db, { name: 'Fixed Agent' })
    const stranger = await aPersonalToken(t.db, await anAccount(t.db), { scopes: ['group-manage:rw'] })
    for (const [method, url] of [
      ['GET', '/api/client-documents'],
      ['POST', `/api/client-documents/${id}/approve`],
    ] as const)
      expect((await callApi(t, stranger, method, url)).statusCode).toBe(403)
    const token = await aReviewer()
    await callApi(t, token, 'POST', `/api/client-documents/${id}/approve`)
    const url = `/api/applications/${encodeURIComponent(clientId)}`
    for (const change of [
      { redirect_uri: 'https://evil.example.com/' },
      { public: false },
      { exact_redirect: false },
    ]) {
      const refused = await callApi(t, token, 'PATCH', url, change)
      expect(refused.json().errmsg).toContain('client metadata document decides')
    }
    expect((await callApi(t, token, 'PATCH', url, { scopes: ['registry-package:r'] })).statusCode).toBe(200)
  })
})
