import { describe, expect, it } from 'vitest'
import { enqueue, type Job } from '../../src/jobs/job.ts'
import { claimJobs, completeJob, failJob } from '../../src/jobs/job-rows.ts'
import { useCommands } from '../support/commands.ts'

describe('svc job', () => {
  const svc = useCommands()
  const job = (name: string): Job => ({ name, run: async () => {} })
  const claimOne = async (name: string) => {
    const [claimed] = await claimJobs(svc.db, { names: [name], limit: 1, ownNames: [], crowds: new Map() })
    if (!claimed) throw new Error(`no ${name} is due`)
    return claimed
  }
  const aFailure = async (name: string, { attempts = 1 } = {}) => {
    await enqueue(svc.db, job(name), { url: 'https://svc.test/secret' })
    const claimed = await claimOne(name)
    await failJob(svc.db, claimed, { message: `no ${name}`, retry: { attempts, delaySeconds: 3600 } })
    return claimed
  }
  const list = (...words: string[]) =>
    svc.json<{ items: Record<string, unknown>[]; next: string | null }>('job', 'list', ...words)

  it('lists jobs by state and name, in parts and without their data', async () => {
    await enqueue(svc.db, job('waiting'), { token: 'secret' })
    const failed = await aFailure('failing')
    await enqueue(svc.db, job('busy'), {})
    await claimOne('busy')
    const first = await list('--limit', '2')
    expect(first.items.map(({ name, state }) => [name, state])).toEqual([
      ['waiting', 'queued'],
      ['failing', 'failed'],
    ])
    expect((await list('--after', first.next ?? '')).items).toMatchObject([
      { name: 'busy', state: 'running' },
    ])
    expect((await list('--state', 'failed')).items).toEqual([
      {
        id: Number(failed.id),
        name: 'failing',
        state: 'failed',
        attempts: 1,
        created_at: expect.any(String),
        run_at: null,
        failed_at: expect.any(String),
        last_error: 'no failing',
      },
    ])
    const { stdout } = await svc.run('job', 'list', '--name', 'failing')
    expect(stdout).toBe(`${failed.id}  failed   failing  attempts: 1  no failing\n`)
  })

  it('runs a failed job again, with all its attempts', async () => {
    const failed = await aFailure('broken')
    const { retried } = await svc.json<{ retried: number[] }>('job', 'retry', failed.id)
    const again = await claimOne('broken')
    expect(again).toMatchObject({ id: String(retried[0]), attempts: 1, data: failed.data })
  })

  it('runs a job at once that waits for its next attempt', async () => {
    const waiting = await aFailure('waits', { attempts: 5 })
    expect((await list('--name', 'waits')).items).toMatchObject([{ state: 'queued', last_error: 'no waits' }])
    await expect(claimOne('waits')).rejects.toThrow('no waits is due')
    await svc.json('job', 'retry', waiting.id)
    expect((await claimOne('waits')).attempts).toBe(1)
  })

  it('gives a retried job to no process that lost its lease', async () => {
    const stale = await aFailure('stale')
    await svc.json('job', 'retry', stale.id)
    await claimOne('stale')
    await completeJob(svc.db, stale)
    expect((await list('--name', 'stale')).items).toMatchObject([{ state: 'running' }])
  })

  it('runs all failed jobs of a name again', async () => {
    for (let i = 0; i < 3; i += 1) await aFailure('mail')
    await aFailure('other')
    expect((await svc.json<{ retried: number[] }>('job', 'retry', '--name', 'mail')).retried).toHaveLength(3)
    expect((await list('--name', 'mail')).items.map(({ state }) => state)).toEqual(Array(3).fill('queued'))
    expect((await list('--name', 'other')).items).toMatchObject([{ state: 'failed' }])
  })

  it('leaves a running job alone', async () => {
    await enqueue(svc.db, job('runs'), {})
    const running = await claimOne('runs')
    expect(await svc.fail('job', 'retry', running.id)).toContain(
      `There is no job ${running.id} that waits or has failed.`,
    )
    expect((await list('--name', 'runs')).items).toMatchObject([{ id: Number(running.id), state: 'running' }])
  })

  it.each([[['x']], [[]], [['1', '--name', 'mail']]])('asks what to retry: %j', async (words) => {
    expect(await svc.fail('job', 'retry', ...words)).toContain('Pass the number of a job')
  })
})
