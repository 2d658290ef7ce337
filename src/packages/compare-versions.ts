import type { ArchiveBrowser, FileDiff } from '../archives/archive-files.ts'
import type { ChangedFiles } from '../archives/archive-tasks.ts'
import { cutDiff, decodeText } from '../archives/text-diff.ts'
import { compareNormalized } from '../composer/composer-version.ts'
import {
  isJsonObject,
  type Json,
  type JsonObject,
  linkTypes,
  maxManifestBytes,
  parseManifest,
} from '../composer/manifest-json.ts'
import { openReadCache } from '../domain/read-cache.ts'
import { Refusal } from '../domain/refusal.ts'
import { changelogBetween } from './changelog.ts'
import type { ReadmeRenderer } from './readmes/render-readme.ts'
import { listRunningFiles } from './running-files.ts'
import type { RenderedReadme } from './tables/readmes.ts'

/** One of the two compared versions. */
export interface ComparedVersion {
  /** The name of its archive, in lower-case hex. */
  sha256: string
  /** Composer's normalized form. */
  normalized: string
}

/** A value of composer.json that differs between two versions. */
export interface ChangedField {
  /** The path of the value, such as `require.acme/lib`. */
  field: string
  /** The value as JSON. Null when the version does not have it. */
  before: string | null
  after: string | null
}

/** What differs between two versions. It never changes, because archives do not. */
export interface Comparison {
  /** The first paths of each kind. Those of `running` come first. */
  files: ChangedFiles
  /** The paths of files that run without being called, as the later composer.json names them. */
  running: string[]
  /** The requirements that differ, by their kind and name. Null when a composer.json cannot be read. */
  requirements: ChangedField[] | null
  /** The other values of composer.json that differ. */
  fields: ChangedField[] | null
  /** The part of the changelog between the versions. Null when there is none. */
  changelog: RenderedReadme | null
}

/** The lines of some files that differ. */
export interface ShownDiffs {
  files: FileDiff[]
  /** The paths for whose lines there was no room. */
  left: readonly string[]
}

/**
 * Compares versions by their archives. Null stands for no version: then everything is added. It throws a Refusal for a damaged
 * archive, and when the store does not respond.
 */
export interface VersionComparer {
  /** Compares two versions. `missing` when the store does not have one of the archives. */
  compare: (from: ComparedVersion | null, to: ComparedVersion) => Promise<Comparison | 'missing'>
  /**
   * Compares the lines of files, in the order of their paths, until there is no more room for lines. If there are several
   * files, one of them gets a third of the room at most.
   */
  diff: (
    from: ComparedVersion | null,
    to: ComparedVersion,
    paths: readonly string[],
    room: { lines: number; characters: number },
  ) => Promise<ShownDiffs | 'missing'>
}

/** The maximum number of paths of one kind. */
const maxPaths = 150
const maxFields = 150
const maxValueCharacters = 150
/** The maximum size of a changelog, and of the part of it that is shown. */
const maxChangelogBytes = 512 * 1024
const maxChangelogCharacters = 8 * 1024
const maxChangelogHtml = 16 * 1024
/** How many files are compared by line at once. Each takes half a second at most. */
const maxFiles = 20

/** The size of the comparisons in memory. */
const maxCachedBytes = 8 * 1024 * 1024

/** The keys whose changes are shown as changes of requirements. */
const requirementKeys = [...linkTypes, 'suggest']

/** Opens a comparer. Threads read the lists of files, compare lines and render the changelog. */
export function openVersionComparer({
  archives,
  readmes,
}: {
  archives: ArchiveBrowser
  readmes: ReadmeRenderer
}): VersionComparer {
  const comparisons = openReadCache<Comparison, { from: ComparedVersion | null; to: ComparedVersion }>({
    maxSize: maxCachedBytes,
    sizeOf: (comparison) => JSON.stringify(comparison).length * 2,
    read: (_hashes, { from, to }) => compare(from, to),
  })

  async function compare(from: ComparedVersion | null, to: ComparedVersion): Promise<Comparison | undefined> {
    const [before, after] = [from === null ? {} : await manifestOf(from), await manifestOf(to)]
    const running = listRunningFiles(after ?? {})
    const part = { limit: maxPaths, first: running }
    const files = await archives.compare(from?.sha256 ?? null, to.sha256, part)
    // A missing archive may come back, so it is not remembered.
    if (files === 'missing') return undefined
    return {
      files,
      running,
      ...changesOf(before, after),
      changelog: from && (await changelogOf(from, to)),
    }
  }

  async function manifestOf({ sha256 }: ComparedVersion): Promise<JsonObject | null> {
    const bytes = await readAt(sha256, 'composer.json', maxManifestBytes)
    try {
      return bytes && parseManifest(bytes).manifest
    } catch (error) {
      // Every upload has a right one. Archives of upstreams may have any.
      if (error instanceof Refusal) return null
      throw error
    }
  }

  /** Returns the part of the changelog between the versions. The newer version has the changelog. */
  async function changelogOf(from: ComparedVersion, to: ComparedVersion): Promise<RenderedReadme | null> {
    const isForward = compareNormalized(from.normalized, to.normalized) < 0
    const [older, newer] = isForward ? [from, to] : [to, from]
    const top = await archives.look(newer.sha256, '', { from: 0, limit: 1000 })
    const names = top === 'missing' ? [] : (top?.entries ?? [])
    const file = names.find(({ name, kind }) => kind === 'file' && /^changelog(?:\.md)?$/i.test(name))
    const bytes = file ? await readAt(newer.sha256, file.path, maxChangelogBytes) : null
    const text = bytes && decodeText(bytes)
    const part = text ? changelogBetween(text, older.normalized, newer.normalized) : null
    if (part === null) return null
    const isCut = part.length > maxChangelogCharacters
    const rendered = await readmes.render({
      text: isCut ? `${part.slice(0, maxChangelogCharacters)}…` : part,
      isMarkdown: true,
    })
    return rendered.content.length <= maxChangelogHtml
      ? rendered
      : { format: 'text', content: part.slice(0, maxChangelogCharacters) }
  }

  async function readAt(sha256: string, path: string, maxBytes: number): Promise<Buffer | null> {
    const found = await archives.look(sha256, path)
    return found !== 'missing' && found?.file ? archives.read(sha256, found.file, maxBytes) : null
  }

  return {
    async compare(from, to) {
      const key = `${from?.sha256} ${to.sha256} ${from?.normalized} ${to.normalized}`
      return (await comparisons.fetch(key, { context: { from, to } })) ?? 'missing'
    },
    async diff(from, to, paths, room) {
      const shown: ShownDiffs = { files: [], left: [] }
      const share = paths.length > 1 ? 3 : 1
      let { lines, characters } = room
      for (const [i, path] of paths.entries()) {
        if (i === maxFiles || lines <= 0 || characters <= 0) {
          shown.left = paths.slice(i)
          break
        }
        const found = await archives.diff(from?.sha256 ?? null, to.sha256, path)
        if (found === 'missing') return 'missing'
        if (!found) continue
        let compared = found.lines
        if (typeof compared === 'object') {
          const mostLines = Math.min(lines, Math.ceil(room.lines / share))
          const mostCharacters = Math.min(characters, Math.ceil(room.characters / share))
          compared = cutDiff(compared, mostLines, mostCharacters)
          const kept = compared.blocks.flatMap((block) => block.lines)
          lines -= kept.length
          characters -= kept.reduce((sum, line) => sum + line.length, 0)
        }
        shown.files.push({ ...found, lines: compared })
      }
      return shown
    },
  }
}

function changesOf(before: JsonObject | null, after: JsonObject | null) {
  const fields = before && after && compareFields(before, after)
  return {
    requirements: fields?.filter(isRequirement).slice(0, maxFields) ?? null,
    fields: fields?.filter((field) => !isRequirement(field)).slice(0, maxFields) ?? null,
  }
}

function isRequirement({ field }: ChangedField): boolean {
  return requirementKeys.some((key) => field.startsWith(`${key}.`))
}

function compareFields(before: JsonObject, after: JsonObject): ChangedField[] {
  const [old, current] = [flatten(before), flatten(after)]
  const fields = [...new Set([...old.keys(), ...current.keys()])]
  return fields.flatMap((field) => {
    const [was, is] = [old.get(field) ?? null, current.get(field) ?? null]
    return was === is ? [] : [{ field, before: shorten(was), after: shorten(is) }]
  })
}

/** Returns the values of the first two levels as JSON, by their paths. */
function flatten(manifest: JsonObject): Map<string, string> {
  const fields = Object.entries(manifest).flatMap(([key, value]): [string, Json][] =>
    isJsonObject(value) && Object.keys(value).length > 0
      ? Object.entries(value).map(([inner, of]) => [`${key}.${inner}`, of])
      : [[key, value]],
  )
  return new Map(fields.map(([field, value]) => [field, JSON.stringify(value)]))
}

function shorten(json: string | null): string | null {
  return json !== null && json.length > maxValueCharacters ? `${json.slice(0, maxValueCharacters)}…` : json
}
