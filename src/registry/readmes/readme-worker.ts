import { parentPort } from 'node:worker_threads'
import { renderMarkdown } from './markdown.ts'

/** A task for the worker thread. */
export interface RenderTask {
  markdown: string
  /** Whether code gets colours. */
  hasColours: boolean
}

// This runs in a worker thread. It sends `ready` first, and then the HTML for each message.
parentPort?.on('message', ({ markdown, hasColours }: RenderTask) =>
  parentPort?.postMessage(renderMarkdown(markdown, { hasColours })),
)
parentPort?.postMessage('ready')
