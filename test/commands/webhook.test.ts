import { describe, expect, it } from 'vitest'
import { allScopes } from '../../src/domain/scopes.ts'
import { anAccount, anAdminToken } from '../support/actors.ts'
import { aCaller, callApi } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { useCommands } from '../support/commands.ts'
import { runCommand } from '../support/run-command.ts'
import { sendMessages } from '../support/webhook-actors.ts'
import { useReceivers, verify, webhooksHere } from '../support/webhook-receiver.ts'
import { aStoredWebhook } from '../support/webhook-rows.ts'

const t = useApp(webhooksHere)
const svc = useCommands(t)
const server = useReceivers()

/** Runs `svc webhook … --json` with the settings of the server. */
async function webhook(...words: string[]) {
  const own = { DATA_DIR: t.config.dataDir, BASE_URL: t.config.baseUrl, ...webhooksHere }
  const environment = { ...svc.environment, ...own }
  const { code, stdout, stderr } = await runCommand(['webhook', ...words, '--json'], environment)
  return code === 0 ? JSON.parse(stdout) : JSON.parse(stderr)
}

describe('svc webhook', () => {
  it('adds, tests, rotates, disables, enables and removes a webhook, and lists and resends its deliveries', async () => {
    const { repository } = await aCaller(t)
    const url = server.receiver('command')
    const wrong = await webhook('add', repository.path, url, '--events', 'version.lost')
    expect(wrong.error).toContain('there is no event type "version.lost": use version.published,')
    const { id, secret } = await webhook('add', repository.path, url, '--events', 'version.published')
    const { delivery } = await webhook('test', String(id))
    await sendMessages(t)
    expect(verify(secret, server.received('command')[0] as never)).toMatchObject({ type: 'ping' })
    expect((await webhook('deliveries', String(id))).items).toEqual([
      expect.objectContaining({ id: delivery, type: 'ping', status: 204, attempt: 1, state: 'delivered' }),
    ])
    await webhook('resend', String(delivery))
    const rotated = await webhook('rotate', String(id))
    await sendMessages(t)
    expect(verify(rotated.secret, server.received('command')[1] as never)).toMatchObject({ type: 'ping' })
    await webhook('disable', String(id))
    expect((await webhook('test', String(id))).error).toContain('the webhook is disabled: enable it first')
    await webhook('enable', String(id))
    expect((await webhook('list', repository.path)).items).toEqual([
      expect.objectContaining({ id, url, events: ['version.published'], format: 'json', enabled: true }),
    ])
    expect(await webhook('set', String(id), '--events', 'all', '--url', server.receiver('second'))).toEqual({
      id,
    })
    const elsewhere = 'http://127.0.0.1:9/hook'
    expect(await webhook('set', String(id), '--url', elsewhere, '--format', 'teams')).toEqual({
      id,
      secret: expect.stringMatching(/^whsec_/),
    })
    expect((await webhook('list', repository.path)).items).toEqual([
      expect.objectContaining({ id, url: elsewhere, events: null, format: 'teams' }),
    ])
    expect((await webhook('set', String(id))).error).toContain('Nothing to change')
    const ofSite = await webhook('add', url, '--format', 'slack')
    expect((await webhook('list')).items).toEqual([expect.objectContaining({ id: ofSite.id, events: null })])
    await aStoredWebhook(t.db, repository.id)
    const stored = (await webhook('list', repository.path)).items[1].id
    const [published] = (await webhook('deliveries', String(stored))).items.filter(
      ({ type }: { type: string }) => type === 'version.published',
    )
    expect(await webhook('delivery', String(published.id))).toMatchObject({
      id: published.id,
      request: expect.stringContaining('"version.published"'),
      response: 'ok',
      attempts: [
        { status: 200, duration_ms: 35, failure: null, response: 'ok' },
        { status: 503, duration_ms: 20, failure: expect.stringContaining('503'), response: 'try later' },
      ],
    })
    expect((await webhook('delivery', '0')).error).toContain('There is no delivery')
    for (const one of [id, stored, ofSite.id]) await webhook('remove', String(one), '--force')
    expect((await webhook('list', repository.path)).items).toEqual([])
    expect((await webhook('remove', String(id), '--force')).error).toContain('There is no webhook')
  })
})

describe('…/webhooks', () => {
  it('of a repository are only for its admins, and only about its own webhooks', async () => {
    const [owner, other] = [await aCaller(t), await aCaller(t)]
    const added = await owner.call('POST', '/webhooks', { url: 'https://1.1.1.1/hook', format: 'teams' })
    expect([added.statusCode, added.json()]).toEqual([
      201,
      expect.objectContaining({ secret: expect.stringMatching(/^whsec_/), events: null, enabled: true }),
    ])
    const { id, secret } = added.json()
    const moved = await owner.call('PATCH', `/webhooks/${id}`, { url: 'https://1.0.0.1/hook' })
    expect(moved.json()).toMatchObject({
      url: 'https://1.0.0.1/hook',
      secret: expect.stringMatching(/^whsec_/),
    })
    const kept = await owner.call('PATCH', `/webhooks/${id}`, { url: 'https://1.0.0.1/other' })
    expect(kept.json()).not.toHaveProperty('secret')
    await owner.call('PATCH', `/webhooks/${id}`, { url: 'https://1.1.1.1/hook' })
    const list = await owner.call('GET', '/webhooks')
    expect(list.json()).toEqual([expect.objectContaining({ id, url: 'https://1.1.1.1/hook' })])
    expect(list.body).not.toContain(secret)
    for (const [method, below] of [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['POST', '/rotate'],
      ['POST', '/ping'],
      ['GET', '/deliveries'],
    ] as const) {
      const url = `/webhooks/${id}${below}`
      expect((await other.call(method, url, method === 'PATCH' ? {} : undefined)).statusCode).toBe(404)
    }
    const guest = await aCaller(t, { repository: owner.repository, role: 'developer' })
    expect((await guest.call('GET', '/webhooks')).statusCode).toBe(403)
    const refused = await owner.call('POST', '/webhooks', { url: 'https://10.0.0.1/hook' })
    expect([refused.statusCode, refused.json().errmsg]).toEqual([
      400,
      expect.stringContaining('has no public IP'),
    ])
    expect((await owner.call('DELETE', `/webhooks/${id}`)).statusCode).toBe(204)
  })

  it('of the site are for site administrators: ping, deliveries, resend, enabled', async () => {
    const administrator = await anAccount(t.db, { isAdmin: true })
    const token = await anAdminToken(t.db, administrator, { scopes: [...allScopes] })
    const call = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', below: string, body?: object) => {
      const response = await callApi(t, token, method, `/api/webhooks${below}`, body)
      return response.body === '' ? null : response.json()
    }
    const { id } = await call('POST', '', { url: server.receiver('site'), events: ['version.published'] })
    const { id: delivery } = await call('POST', `/${id}/ping`)
    await sendMessages(t)
    const { items } = await call('GET', `/${id}/deliveries`)
    expect(items).toEqual([expect.objectContaining({ id: delivery, type: 'ping', status: 204, attempt: 1 })])
    expect(await call('GET', `/${id}/deliveries/${delivery}`)).toMatchObject({
      request: server.received('site')[0]?.body,
      response: null,
      attempts: [{ status: 204, failure: null, response: null, duration_ms: expect.any(Number) }],
    })
    expect(await call('POST', `/${id}/deliveries/${delivery}/resend`)).toEqual({ id: delivery })
    expect(await call('PATCH', `/${id}`, { enabled: false, events: null })).toMatchObject({
      enabled: false,
      events: null,
    })
    expect(await call('POST', `/${id}/ping`)).toMatchObject({ errcode: 9 })
    await call('DELETE', `/${id}`)
    expect(await call('GET', '')).toEqual([])
  })
})
