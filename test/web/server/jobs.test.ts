import { expect, it, vi } from 'vitest'
import { jobs } from '../../../src/web/server/jobs.ts'
import { useApp } from '../../support/app.ts'

const t = useApp()

const scheduled = async () =>
  (await t.db.query<{ name: string }>('select name from job_kind order by name')).rows.map(({ name }) => name)

it('runs background jobs only once it listens', async () => {
  await t.app.inject('/healthz')
  expect(await scheduled()).toEqual([])
  await t.app.listen({ port: 0 })
  const names = jobs.filter(({ everySeconds }) => everySeconds !== undefined).map(({ name }) => name)
  await vi.waitFor(async () => expect(await scheduled()).toEqual(names.sort()), 60_000)
  await t.db.query(`update job_kind set next_at = now() where name = 'delete-expired-rows'`)
  await vi.waitFor(async () => {
    const { rows } = await t.db.query(
      `select succeeded_at is not null as ran from job_kind where name = 'delete-expired-rows'`,
    )
    expect(rows).toEqual([{ ran: true }])
  }, 60_000)
})

it('names each job once, in kebab-case', () => {
  const names = jobs.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  for (const name of names) expect(name).toMatch(/^[a-z]+(-[a-z]+)*$/)
})
