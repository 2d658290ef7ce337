import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { countEvents } from '../../../src/events/event-list.ts'
import { aPersonalToken } from '../../support/actors.ts'
import { anAdministrator } from '../../support/admin-actors.ts'
import { useAnotherProcess, useApp } from '../../support/app.ts'
import { open } from '../../support/browse.ts'
import { addManySignIns } from '../../support/event-rows.ts'
import { lockTables, openTransaction } from '../../support/locks.ts'

const t = useApp()
/** A process in which PostgreSQL ends every statement that takes longer than two seconds. */
const hasty = useAnotherProcess(t, { statement_timeout: 2000 })
beforeAll(() => addManySignIns(t.db, 101_000))

/** Lets nobody read events until the test ends. */
async function lockEvents() {
  const { tx, rollback } = await openTransaction(t.db)
  onTestFinished(rollback)
  await lockTables(tx, 'event')
}

describe('an export of events', () => {
  it.each([
    ['json', (line: string) => JSON.parse(line).truncated],
    ['csv', (line: string) => line.split(',')[2] === 'truncated'],
  ])('ends with a line that says so when older events are missing: %s', async (format, isEnd) => {
    const { cookie } = await anAdministrator(t)
    const { body } = await open(t, `/admin/events?format=${format}`, cookie)
    const lines = body.trim().split('\n')
    expect(isEnd(lines.pop() ?? '')).toBe(true)
    expect(lines).toHaveLength(100_000 + (format === 'csv' ? 1 : 0))
    expect(lines.some((line) => line.includes('truncated'))).toBe(false)
  })

  it('ends with a broken connection when the rest cannot be read', async () => {
    const { cookie } = await anAdministrator(t)
    const url = await hasty.app.listen({ port: 0, host: '127.0.0.1' })
    const response = await fetch(`${url}/admin/events?format=csv`, { headers: { cookie } })
    expect(response.status).toBe(200)
    await lockEvents()
    await expect(response.text()).rejects.toThrow('terminated')
  })
})

it('a page counts up to 1,000 events that match its filter, and none when that takes too long', async () => {
  const { cookie } = await anAdministrator(t)
  const at = (query: string) => open(t, `/admin/events?${query}`, cookie)
  expect((await at('action=sign-in')).body).toContain('1,000 or more events match')
  expect(await countEvents(t.db, { actions: ['sign-in'] }, 5)).toBe(5)
  await lockEvents()
  expect(await countEvents(t.db, {}, 5)).toBeNull()
})

it('a list of events that takes too long asks for a narrower filter, as a page, an export and JSON', async () => {
  const { account, cookie } = await anAdministrator(t)
  const token = await aPersonalToken(t.db, account, { scopes: ['registry-manage:r'], isAdmin: true })
  await lockEvents()
  const [page, csv, api] = await Promise.all([
    hasty.app.inject({ url: '/admin/events?means=svc', headers: { cookie } }),
    hasty.app.inject({ url: '/admin/events?means=svc&format=csv', headers: { cookie } }),
    hasty.app.inject({ url: '/api/events?means=svc', headers: { authorization: `Bearer ${token}` } }),
  ])
  expect([page.statusCode, csv.statusCode, api.statusCode]).toEqual([400, 400, 400])
  for (const { body } of [page, csv]) {
    expect(body).toContain('This takes too long: narrow the filter')
    expect(body).toMatch(/<option value="svc" selected>/)
  }
  expect(api.json()).toMatchObject({ errcode: 4, errmsg: expect.stringContaining('narrow the filter') })
})
