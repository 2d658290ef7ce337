import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The URL of the folder of the built files. */
const built = new URL('.', import.meta.url).href
/** A place in a built file: URL, line and column. */
const place = /(file:[^\s()]+\.js):(\d+):(\d+)/
/** The source maps by the URL of their built file. Null where there is none. */
const maps = new Map<string, SourceMap | null>()

/**
 * Makes stack traces name the files and lines of src/. It reads the source map of a built file when a trace names the file
 * first: Node itself (`--enable-source-maps`) reads those of all loaded files, which takes a twelfth of a start. Does
 * nothing when svc runs from source.
 */
export function traceSources(): void {
  if (import.meta.url.endsWith('.ts')) return
  Error.prepareStackTrace = (error, frames: { toString: () => string }[]) => {
    const lines = frames.map((frame) => `    at ${frame.toString().replace(place, sourceOf)}`)
    return [headOf(error), ...lines].join('\n')
  }
}

/** Returns what a stack trace begins with: the name and message of the error. */
function headOf(error: Error): string {
  try {
    return Error.prototype.toString.call(error)
  } catch {
    return 'Error'
  }
}

/** Returns the place in src/ for a place in a built file, or the place itself without a map. */
function sourceOf(found: string, url: string, line: string, column: string): string {
  const entry = mapOf(url)?.findEntry(Number(line) - 1, Number(column) - 1)
  if (!entry || !('originalSource' in entry)) return found
  const { originalSource, originalLine, originalColumn } = entry
  return `${resolve(dirname(fileURLToPath(url)), originalSource)}:${originalLine + 1}:${originalColumn + 1}`
}

function mapOf(url: string): SourceMap | null {
  const known = maps.get(url)
  if (known !== undefined) return known
  const map = url.startsWith(built) ? readMap(`${fileURLToPath(url)}.map`) : null
  maps.set(url, map)
  return map
}

function readMap(path: string): SourceMap | null {
  try {
    return new SourceMap(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    return null
  }
}
