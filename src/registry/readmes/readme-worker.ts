import { parentPort } from 'node:worker_threads'
import { highlightLines } from './highlight.ts'
import { renderMarkdown } from './markdown.ts'

/** A task for the worker thread: a README, or a file of an archive. */
export type RenderTask =
  | {
      markdown: string
      /** Whether code gets colours. */
      hasColours: boolean
    }
  | { code: string; language: string }

// This runs in a worker thread. It sends `ready` first, and then the result of each message: HTML, or lines of HTML.
parentPort?.on('message', (task: RenderTask) =>
  parentPort?.postMessage(
    'code' in task ? highlightLines(task.code, task.language) : renderMarkdown(task.markdown, task),
  ),
)
parentPort?.postMessage('ready')
