import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openThreads, type Threads } from '../../src/domain/threads.ts'

/** What a thread of these tests does, for how many milliseconds. */
type Task = { work: number } | { wait: number }

const thread = `
import { serveThread } from '${new URL('../../.built/domain/threads.js', import.meta.url)}'
serveThread((task) => {
  const end = performance.now() + task.work
  while (performance.now() < end);
  if (task.wait) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, task.wait)
  return 'done'
})`

let folder: string
let threads: Threads<Task>
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-test-threads-'))
  await writeFile(join(folder, 'thread.js'), thread)
  threads = openThreads(pathToFileURL(join(folder, 'thread')), { count: 1, maxHeapMegabytes: 64 })
})
afterAll(async () => {
  await threads.close()
  await rm(folder, { recursive: true })
})

describe('the time limit of a task in a thread', () => {
  it('ends a task that runs longer, and the next task gets a new thread', async () => {
    const endless = threads.run({ work: Number.POSITIVE_INFINITY }, { milliseconds: 100 })
    await expect(endless).rejects.toThrow('takes too long')
    expect(await threads.run({ work: 0 }, { milliseconds: 60_000 })).toBe('done')
  })

  it.runIf(process.platform === 'linux')(
    'does not count the time in which other work has the processor',
    async () => {
      expect(await threads.run({ wait: 1_200 }, { milliseconds: 1_000 })).toBe('done')
    },
  )

  it('ends a task whose thread waits for ever', async () => {
    const waiting = threads.run({ wait: 3_600_000 }, { milliseconds: 100 })
    await expect(waiting).rejects.toThrow('takes too long')
  })
})
