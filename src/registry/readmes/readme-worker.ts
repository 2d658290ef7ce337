import { parentPort } from 'node:worker_threads'
import { renderMarkdown } from './markdown.ts'

// Runs in a worker thread. It reports when it is ready. Then it returns HTML for each message with Markdown.
parentPort?.on('message', (markdown: string) => parentPort?.postMessage(renderMarkdown(markdown)))
parentPort?.postMessage('ready')
