import { parentPort } from 'node:worker_threads'
import { renderMarkdown } from './markdown.ts'

/** What the worker thread renders. */
export interface RenderTask {
  markdown: string
  /** Whether code gets colours. */
  hasColours: boolean
}

// Runs in a worker thread. It reports when it is ready. Then it returns HTML for each message.
parentPort?.on('message', ({ markdown, hasColours }: RenderTask) =>
  parentPort?.postMessage(renderMarkdown(markdown, { hasColours })),
)
parentPort?.postMessage('ready')
