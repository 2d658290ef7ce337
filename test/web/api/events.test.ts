import { describe, expect, it } from 'vitest'
import type { Queryable } from '../../../src/database/database.ts'
import { sweepEvents } from '../../../src/events/sweep-events.ts'
import { anAccount, anAdminToken, aPersonalToken } from '../../support/actors.ts'
import { aCaller, callApi } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import {
  addOldPublications,
  asEventSweep,
  changeEvents,
  listRegistryEventIds,
  eventsOf as storedEvents,
} from '../../support/event-rows.ts'
import { dropRows, truncateTable } from '../../support/rows.ts'
import { copyVersions } from '../../support/version-rows.ts'

const t = useApp()
const scopes = ['registry-manage:r']

async function aSiteAdmin() {
  const admin = await anAccount(t.db, { isAdmin: true })
  const token = await anAdminToken(t.db, admin, { scopes })
  return { admin, get: (query = '') => callApi(t, token, 'GET', `/api/events${query}`) }
}

describe('GET /api/events', () => {
  it('shows a site administrator the events of a deleted repository, by the path that it had', async () => {
    const { get } = await aSiteAdmin()
    const { push, call, repository, account } = await aCaller(t)
    await push('1.0.0')
    expect((await call('DELETE', '')).statusCode).toBe(204)
    expect((await call('GET', '/events')).statusCode).toBe(404)
    const found = await get(`?repository=${encodeURIComponent(repository.path)}`)
    expect(found.statusCode).toBe(200)
    expect(
      found
        .json()
        .map((event: Record<string, unknown>) => [event['action'], event['repository'], event['account']]),
    ).toEqual([
      ['delete-repository', repository.path, account.username],
      ['publish', repository.path, account.username],
    ])
    expect(found.json()[1]).toMatchObject({
      package: 'acme/lib',
      version: '1.0.0',
      group: repository.path.split('/')[0],
    })
  })

  it('names at most 50 versions of a package that was deleted, and counts all', async () => {
    const { push, call, repository } = await aCaller(t)
    await push('1.0.0')
    await copyVersions(t.db, repository, 99)
    expect((await call('DELETE', '/packages/acme/lib')).statusCode).toBe(204)
    const [event] = (await call('GET', '/events')).json()
    expect([event.action, event.details.count, event.details.versions.length]).toEqual(['delete', 100, 50])
  })

  it('shows the whole site in parts, the latest first', async () => {
    const { get } = await aSiteAdmin()
    const { push } = await aCaller(t)
    for (let patch = 0; patch < 5; patch += 1) await push(`1.0.${patch}`, { manifest: { extra: { patch } } })
    const ids: number[] = []
    for (let query = '?limit=3'; query !== ''; ) {
      const response = await get(query)
      ids.push(...response.json().map(({ id }: { id: number }) => id))
      query = /events(\?[^>]*)>/.exec(String(response.headers.link))?.[1] ?? ''
    }
    expect(ids).toEqual((await listRegistryEventIds(t.db)).toReversed().map(Number))
    expect((await get('?repository=nobody/nothing')).json()).toEqual([])
    expect((await get('?repository=nothing')).statusCode).toBe(400)
  })

  it('is for tokens of site administrators for all repositories, with registry-manage:r', async () => {
    const { admin } = await aSiteAdmin()
    const somebody = await anAccount(t.db)
    const statusOf = async (account: { id: string }, about: Parameters<typeof aPersonalToken>[2]) =>
      (await callApi(t, await aPersonalToken(t.db, account, about), 'GET', '/api/events')).statusCode
    expect(await statusOf(admin, { scopes, isAdmin: true })).toBe(200)
    expect(await statusOf(admin, { scopes })).toBe(403)
    expect(await statusOf(somebody, { scopes })).toBe(403)
    expect(await statusOf(admin, { scopes: ['registry-package:rw'], isAdmin: true })).toBe(403)
    expect(await statusOf(admin, { scopes, resourceScope: 'public' })).toBe(403)
    expect(await statusOf(admin, { scopes, resourceScope: 'specified' })).toBe(403)
    expect((await t.app.inject('/api/events')).statusCode).toBe(401)
  })
})

describe('the sweep of events', () => {
  /** Inserts events that are this many days old. Returns the remaining ones. */
  async function eventsOf(days: number[]) {
    const repositoryId = String(Math.floor(Math.random() * 1e12))
    await addOldPublications(t.db, { id: repositoryId }, days)
    return async () => {
      const rows = await storedEvents(t.db, { repositoryId }, ['package', 'ip', 'details'])
      return rows.map(({ package: name, ip, details }) => [name, ip, details['size']])
    }
  }

  async function sweepAll(settings: Parameters<typeof sweepEvents>[1], limit = 1000) {
    let sum = 0
    for (let swept = -1; swept !== 0; sum += swept) swept = await sweepEvents(t.db, settings, limit)
    return sum
  }

  it('erases the client IP after so many days, and nothing else', async () => {
    await sweepAll({ retentionDays: 36_500, ipDays: 0 })
    const left = await eventsOf([400, 300, 200, 100, 91, 89, 0])
    expect(await sweepAll({ retentionDays: 36_500, ipDays: 90 }, 3)).toBe(5)
    expect(await left()).toEqual([
      ...[400, 300, 200, 100, 91].map((days) => [`acme/${days}`, null, 1]),
      ['acme/89', '192.0.2.1', 1],
      ['acme/0', '192.0.2.1', 1],
    ])
  })

  it('removes events after so many days', async () => {
    const left = await eventsOf([400, 366, 364, 0])
    await sweepAll({ retentionDays: 36_500, ipDays: 36_500 })
    expect(await left()).toHaveLength(4)
    await sweepAll({ retentionDays: 365, ipDays: 36_500 })
    expect((await left()).map(([name]) => name)).toEqual(['acme/364', 'acme/0'])
  })

  it('is the only change that the append-only table allows', async () => {
    const left = await eventsOf([400, 0])
    await sweepAll({ retentionDays: 365, ipDays: 90 })
    await expect(changeEvents(t.db, {}, { ip: null })).rejects.toThrow('event is append-only')
    await expect(dropRows(t.db, 'event')).rejects.toThrow('event is append-only')
    await expect(truncateTable(t.db, 'event')).rejects.toThrow('event is append-only')
    for (const change of [
      (tx: Queryable) => changeEvents(tx, {}, { version: '2.0.0' }),
      (tx: Queryable) => changeEvents(tx, {}, { ip: '192.0.2.9' }),
      (tx: Queryable) => changeEvents(tx, {}, { ip: null, action: 'purge' }),
      (tx: Queryable) => truncateTable(tx, 'event'),
    ]) {
      await expect(asEventSweep(t.db, change)).rejects.toThrow('event is append-only')
    }
    expect(await left()).toHaveLength(1)
  })
})
