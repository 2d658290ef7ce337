import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Queryable } from '../../database/database.ts'
import { cleanText } from '../../domain/plain-text.ts'
import type { ArchiveStore } from '../archives/archive-store.ts'
import { type Readme, readReadme } from '../archives/readme-entry.ts'
import { limitConcurrency } from '../archives/time-slices.ts'
import { findReadmeOf, insertReadme, type RenderedReadme } from '../tables/readmes.ts'

/** Renders READMEs. */
export interface ReadmeRenderer {
  /** Returns the README as HTML. A README that exceeds the limits of time or size is returned as text. */
  render: (readme: Readme | null) => Promise<RenderedReadme>
  close: () => Promise<void>
}

/** The limit of the schema. 64 KiB of Markdown can become 32 MiB of HTML, by many uses of one long link. */
const maxContentBytes = 512 * 1024
/** 64 KiB of Markdown take 50 to 800 ms, or 1.2 s in the worst known case. */
const maxMilliseconds = 5_000

const resourceLimits = { maxOldGenerationSizeMb: 256 }

/** Starts the thread. From source (tests, `npm run dev`) tsx must first be registered in it, to read TypeScript. */
function startThread(): Worker {
  if (!import.meta.url.endsWith('.ts')) {
    return new Worker(new URL('./readme-worker.js', import.meta.url), { resourceLimits })
  }
  const { href } = new URL('./readme-worker.ts', import.meta.url)
  const script = `import('tsx/esm/api').then(({ register }) => { register(); return import('${href}') })`
  return new Worker(script, { eval: true, resourceLimits })
}

/** Opens a renderer. It renders in a thread, because Markdown would block the event loop. The first README starts it. */
export function openReadmeRenderer(): ReadmeRenderer {
  const inTurn = limitConcurrency(1)
  let worker: Worker | null = null

  async function startWorker(): Promise<Worker> {
    const started = startThread()
    await once(started, 'message')
    // Without a listener, an error between two READMEs would end the process.
    started.on('error', () => {})
    started.on('exit', () => {
      if (worker === started) worker = null
    })
    return started
  }

  /** Returns the HTML. Null when it takes too long or the thread fails. Then the thread is replaced. */
  async function renderInThread(markdown: string): Promise<string | null> {
    worker ??= await startWorker()
    const rendering = worker
    // Only a README in progress keeps the process alive.
    rendering.ref()
    try {
      rendering.postMessage(markdown)
      const timeout = AbortSignal.timeout(maxMilliseconds)
      const [html] = (await once(rendering, 'message', { signal: timeout })) as [string]
      rendering.unref()
      return html
    } catch {
      worker = null
      await rendering.terminate()
      return null
    }
  }

  return {
    async render(readme) {
      if (!readme) return { format: 'none', content: '' }
      const text = cleanText(readme.text.replace(/\r\n?/g, '\n'))
      const html = readme.isMarkdown ? await inTurn(() => renderInThread(text)) : null
      if (html !== null && Buffer.byteLength(html) <= maxContentBytes)
        return { format: 'html', content: html }
      return { format: 'text', content: text }
    },
    async close() {
      await worker?.terminate()
    },
  }
}

/**
 * Returns the README of a version. For a version of an earlier release it is read from the archive and stored, once.
 */
export async function loadReadme(
  { db, archives, readmes }: { db: Queryable; archives: ArchiveStore; readmes: ReadmeRenderer },
  { id, sha256 }: { id: string; sha256: string },
): Promise<RenderedReadme> {
  const stored = await findReadmeOf(db, id)
  if (stored) return stored
  const readme = await readReadme(archives, sha256)
  if (readme === 'archive missing') return { format: 'none', content: '' }
  const rendered = await readmes.render(readme)
  await insertReadme(db, id, rendered)
  return rendered
}
