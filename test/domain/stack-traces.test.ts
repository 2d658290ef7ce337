import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'

describe('the stack of an error in a thread', () => {
  it('names files and lines of src/', async () => {
    const built = new URL('../../dist/document-thread.js', import.meta.url)
    const thread = new Worker(built, { execArgv: [] })
    await once(thread, 'message')
    thread.postMessage('no task of this thread')
    const [{ error }] = (await once(thread, 'message')) as [{ error: Error }]
    await thread.terminate()
    expect(error.stack).toMatch(/ at \S*\/src\/upstreams\/documents\/document-thread\.ts:\d+:\d+/)
    expect(error.stack).not.toContain('/dist/')
  })
})
