import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Queryable } from '../../database/database.ts'
import { cleanText } from '../../domain/plain-text.ts'
import { limitConcurrency } from '../../domain/time-slices.ts'
import type { Job } from '../../jobs/job.ts'
import { readReadme } from '../archives/archive-files.ts'
import type { ArchiveStore } from '../archives/archive-store.ts'
import type { Readme } from '../archives/archive-tree.ts'
import { openArchiveStore } from '../archives/store-owner.ts'
import { findReadmeOf, listOldReadmes, type RenderedReadme, saveReadme } from '../tables/readmes.ts'
import type { RenderTask } from './readme-worker.ts'

/** Renders READMEs, and files of archives. */
export interface ReadmeRenderer {
  /** Returns the README as HTML. A README that exceeds the limits of time or size is returned as text. */
  render: (readme: Readme | null) => Promise<RenderedReadme>
  /**
   * Returns code as lines of escaped HTML with colours. Null for an unknown language, for long code, when it takes too
   * long, and when other tasks are waiting.
   */
  highlight: (code: string, language: string) => Promise<string[] | null>
  close: () => Promise<void>
}

/** The limit of the schema. 64 KiB of Markdown can become 32 MiB of HTML, when one long link is used many times. */
const maxContentBytes = 512 * 1024
/** With colours, the HTML must be smaller, so that the page of a package stays below 100 kB. */
const maxColouredBytes = 84 * 1024
/** The time limit. 64 KiB of Markdown take 50 to 800 ms, or 1.2 s in the worst known case. */
const maxMilliseconds = 5_000

/** Longer code is shown without colours. */
const maxCodeCharacters = 128 * 1024
const maxCodeMilliseconds = 1_000
/** At most this many tasks wait for the thread. Code then has no colours, so that READMEs are rendered first. */
const maxWaiting = 4

const resourceLimits = { maxOldGenerationSizeMb: 256 }

/**
 * Starts the thread. When svc runs from source (tests, `npm run dev`), the thread first registers tsx, to read
 * TypeScript.
 */
function startThread(): Worker {
  if (!import.meta.url.endsWith('.ts')) {
    return new Worker(new URL('./readme-worker.js', import.meta.url), { resourceLimits })
  }
  const { href } = new URL('./readme-worker.ts', import.meta.url)
  const script = `import('tsx/esm/api').then(({ register }) => { register(); return import('${href}') })`
  return new Worker(script, { eval: true, resourceLimits })
}

/**
 * Opens a renderer. It renders in a worker thread, because Markdown would block the event loop. The first README starts
 * the thread.
 */
export function openReadmeRenderer(): ReadmeRenderer {
  const inTurn = limitConcurrency(1)
  let worker: Worker | null = null
  let waiting = 0

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

  /**
   * Returns the result. When the rendering takes too long or the thread fails, it returns null and replaces the thread.
   */
  async function renderInThread<Result = string>(
    task: RenderTask,
    milliseconds = maxMilliseconds,
  ): Promise<Result | null> {
    worker ??= await startWorker()
    const rendering = worker
    // Only a README in progress keeps the process alive.
    rendering.ref()
    try {
      rendering.postMessage(task)
      const timeout = AbortSignal.timeout(milliseconds)
      const [result] = (await once(rendering, 'message', { signal: timeout })) as [Result]
      rendering.unref()
      return result
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
      if (!readme.isMarkdown) return { format: 'text', content: text }
      const coloured = await inTurn(() => renderInThread({ markdown: text, hasColours: true }))
      if (coloured !== null && Buffer.byteLength(coloured) <= maxColouredBytes)
        return { format: 'html', content: coloured }
      const plain = await inTurn(() => renderInThread({ markdown: text, hasColours: false }))
      if (plain !== null && Buffer.byteLength(plain) <= maxContentBytes)
        return { format: 'html', content: plain }
      return { format: 'text', content: text }
    },
    async highlight(code, language) {
      if (code.length > maxCodeCharacters || waiting >= maxWaiting) return null
      waiting += 1
      try {
        return await inTurn(() => renderInThread<string[]>({ code, language }, maxCodeMilliseconds))
      } finally {
        waiting -= 1
      }
    },
    async close() {
      await worker?.terminate()
    },
  }
}

/** The parts that `loadReadme` needs. */
export interface ReadmeSources {
  db: Queryable
  archives: ArchiveStore
  readmes: ReadmeRenderer
}

/**
 * Returns the README of a version. For a version of an earlier release, it reads the README from the archive, renders
 * it and stores it, once. If the archive is missing, the rendering of the earlier release stays.
 */
export async function loadReadme(
  { db, archives, readmes }: ReadmeSources,
  { id, sha256 }: { id: string; sha256: string },
): Promise<RenderedReadme> {
  const stored = await findReadmeOf(db, id)
  if (stored?.isCurrent) return stored
  const readme = await readReadme(archives, sha256)
  if (readme === 'archive missing') return stored ?? { format: 'none', content: '' }
  const rendered = await readmes.render(readme)
  await saveReadme(db, id, rendered)
  return rendered
}

/** Renders the READMEs of earlier releases again. A migration enqueues this job once. */
export const renderReadmesJob: Job = {
  name: 'render-readmes',
  singleton: true,
  async run({ db, config, log }, _data, signal) {
    const sources = { db, archives: await openArchiveStore(config), readmes: openReadmeRenderer() }
    try {
      for (let after = '0'; ; ) {
        const versions = await listOldReadmes(db, after, 20)
        const last = versions.at(-1)
        if (!last) return
        for (const version of versions) {
          signal.throwIfAborted()
          // If an archive cannot be read, its README stays unchanged, and the others are rendered.
          await loadReadme(sources, version).catch((err: unknown) =>
            log.warn({ err, version: version.id }, 'a README could not be rendered again'),
          )
        }
        after = last.id
      }
    } finally {
      await sources.readmes.close()
    }
  },
}
