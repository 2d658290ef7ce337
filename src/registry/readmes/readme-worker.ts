import { parentPort } from 'node:worker_threads'
import { renderMarkdown } from './markdown.ts'

// Runs in a worker thread. It says when it is ready, and then answers each message, Markdown, with HTML.
parentPort?.on('message', (markdown: string) => parentPort?.postMessage(renderMarkdown(markdown)))
parentPort?.postMessage('ready')
