import { expect, it, vi } from 'vitest'
import { jobs } from '../../../src/web/server/jobs.ts'
import { useApp } from '../../support/app.ts'
import { listJobKinds, setNextJob } from '../../support/job-rows.ts'

const t = useApp()

const scheduled = async () => (await listJobKinds(t.db)).map(({ name }) => name)

it('runs background jobs only once it listens', async () => {
  await t.app.inject('/healthz')
  expect(await scheduled()).toEqual([])
  await t.app.listen({ port: 0 })
  const names = jobs.filter(({ everySeconds }) => everySeconds !== undefined).map(({ name }) => name)
  await vi.waitFor(async () => expect(await scheduled()).toEqual(names.sort()), 60_000)
  await setNextJob(t.db, 'delete-expired-rows')
  await vi.waitFor(async () => {
    const kind = (await listJobKinds(t.db)).find(({ name }) => name === 'delete-expired-rows')
    expect(kind?.succeededAt).toBeInstanceOf(Date)
  }, 60_000)
})

it('names each job once, in kebab-case', () => {
  const names = jobs.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  for (const name of names) expect(name).toMatch(/^[a-z]+(-[a-z]+)*$/)
})
