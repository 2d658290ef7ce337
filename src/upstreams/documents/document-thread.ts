import { serveThread } from '../../domain/threads.ts'
import { UpstreamError } from '../client/upstream-error.ts'
import { documentTasks } from './document-tasks.ts'
import type { DocumentTask, TaskResult } from './run-task.ts'

// This runs in a worker thread. An error loses its class on the way to the main thread.
serveThread(async ({ name, args }: DocumentTask): Promise<TaskResult> => {
  const task = documentTasks[name] as (...args: unknown[]) => unknown
  try {
    return { value: await task(...args) }
  } catch (error) {
    if (error instanceof UpstreamError) return { refusal: error.message }
    throw error
  }
})
