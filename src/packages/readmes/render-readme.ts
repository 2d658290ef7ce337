import { readReadme } from '../../archives/archive-files.ts'
import type { ArchiveStore } from '../../archives/archive-store.ts'
import type { Readme } from '../../archives/archive-tree.ts'
import { openArchiveStore } from '../../archives/store-owner.ts'
import type { Queryable } from '../../database/database.ts'
import { cleanText } from '../../domain/plain-text.ts'
import { openThreads } from '../../domain/threads.ts'
import type { Job } from '../../jobs/job.ts'
import { findReadmeOf, listOldReadmes, type RenderedReadme, saveReadme } from '../tables/readmes.ts'
import type { RenderTask } from './readme-thread.ts'

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

/**
 * Opens a renderer. It renders in a worker thread, because Markdown would block the event loop. The first README starts
 * the thread.
 */
export function openReadmeRenderer(): ReadmeRenderer {
  const threads = openThreads<RenderTask>(new URL('./readme-thread', import.meta.url), {
    count: 1,
    maxHeapMegabytes: 256,
  })
  let waiting = 0

  /** Returns the result. Null when the rendering takes too long, or fails. */
  async function renderInThread<Result = string>(
    task: RenderTask,
    milliseconds = maxMilliseconds,
  ): Promise<Result | null> {
    try {
      return await threads.run<Result>(task, { milliseconds })
    } catch {
      return null
    }
  }

  return {
    async render(readme) {
      if (!readme) return { format: 'none', content: '' }
      const text = cleanText(readme.text.replace(/\r\n?/g, '\n'))
      if (!readme.isMarkdown) return { format: 'text', content: text }
      const coloured = await renderInThread({ markdown: text, hasColours: true })
      if (coloured !== null && Buffer.byteLength(coloured) <= maxColouredBytes)
        return { format: 'html', content: coloured }
      const plain = await renderInThread({ markdown: text, hasColours: false })
      if (plain !== null && Buffer.byteLength(plain) <= maxContentBytes)
        return { format: 'html', content: plain }
      return { format: 'text', content: text }
    },
    async highlight(code, language) {
      if (code.length > maxCodeCharacters || waiting >= maxWaiting) return null
      waiting += 1
      try {
        return await renderInThread<string[]>({ code, language }, maxCodeMilliseconds)
      } finally {
        waiting -= 1
      }
    },
    close: threads.close,
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
