import { serveThread } from '../../domain/threads.ts'
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

// The result is HTML, or lines of HTML.
serveThread((task: RenderTask) =>
  'code' in task ? highlightLines(task.code, task.language) : renderMarkdown(task.markdown, task),
)
