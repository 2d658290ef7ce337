import { errcode, Refusal } from '../domain/refusal.ts'
import { openThreads, ThreadFailure } from '../domain/threads.ts'
import type { ArchiveReply, ArchiveTask } from './archive-tasks.ts'

const module = new URL('./archive-thread', import.meta.url)

/** Checks of uploads. An archive of a gigabyte takes half a minute. */
const checking = {
  threads: openThreads<ArchiveTask>(module, { count: 2, maxHeapMegabytes: 512 }),
  seconds: 600,
}
/** Lists of files. One thread, because it keeps the lists that it used last. The longest list takes about a second. */
const browsing = {
  threads: openThreads<ArchiveTask>(module, { count: 1, maxHeapMegabytes: 512 }),
  seconds: 60,
}
/** Comparisons of two files. They have their own thread, so that no list of files waits for them. */
const comparing = {
  threads: openThreads<ArchiveTask>(module, { count: 1, maxHeapMegabytes: 512 }),
  seconds: 10,
}

function threadsOf({ name }: ArchiveTask) {
  if (name === 'check') return checking
  return name === 'diff' ? comparing : browsing
}

/** Runs a task on archives in a thread, and returns its value. Throws the error of the task as it was thrown there. */
export async function runInArchiveThread<Value>(task: ArchiveTask): Promise<Value> {
  const reply = await askArchiveThread(task)
  if ('needs' in reply) throw new Error(`the thread has no list of ${reply.needs.join(', ')}`)
  return reply.value as Value
}

/**
 * Runs a task that may need directories of archives first. Throws errcode 14 when the thread does not finish it: the
 * processors are busy, or the memory is not enough.
 */
export async function askArchiveThread(
  task: ArchiveTask,
): Promise<Extract<ArchiveReply, { value: unknown } | { needs: unknown }>> {
  const { threads, seconds } = threadsOf(task)
  const options = { milliseconds: seconds * 1000 }
  const reply = await threads.run<ArchiveReply>(task, options).catch((error: unknown) => {
    if (!(error instanceof ThreadFailure)) throw error
    throw new Refusal(errcode.unavailable, `the archive ${error.message}: try again later`, {
      cause: error,
    })
  })
  if ('refusal' in reply) {
    const { errcode, message, status, warning, details } = reply.refusal
    throw new Refusal(errcode, message, { status, details, ...(warning !== undefined && { warning }) })
  }
  if ('failure' in reply) throw Object.assign(new Error(reply.failure.message), reply.failure)
  return reply
}
