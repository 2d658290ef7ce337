import type { Json, JsonObject } from '../../composer/manifest-json.ts'
import { parseInclude, parseRoot, versionList } from '../client/upstream-root.ts'
import { contentAdvisories, parseAdvisories, type ServedAdvisory } from './complete-advisories.ts'
import { type ContentQuestion, type DescribedContent, describeContent } from './described-content.ts'
import { parseChanges, parseMalwareList, parseTimestamp } from './feeds.ts'
import {
  type ContentSummary,
  type EncodedOffer,
  offeredArchives,
  type PackedDocument,
  type PackedRules,
  packDocument,
  renderContent,
  summarize,
  unpackContent,
} from './packed-content.ts'
import { parseObject, textOf } from './parse-object.ts'
import { type PartWanted, readDocument, readUnexpanded } from './read-document.ts'
import { parseNames, parseProviders, parseSearch } from './search-results.ts'

/**
 * The work on what upstreams send. `runTask` runs a task in a thread when it could block the event loop. So the arguments
 * and results are texts, bytes and short lists.
 */
export const documentTasks = {
  parseRoot,
  parseInclude,
  parseChanges,
  parseTimestamp,
  parseMalwareList,
  parseAdvisories,
  parseSearch,
  parseNames,
  parseProviders,

  /** Reads a package's document. Null when it does not contain the package. */
  readPackageDocument(bytes: Uint8Array, packageName: string): PackedDocument | null {
    const checked = readDocument(parseObject(bytes, `the metadata of ${packageName}`), packageName)
    return checked && packDocument(checked)
  },

  /** Returns whether a document contains the package. */
  hasPackage: (bytes: Uint8Array, packageName: string): boolean =>
    readUnexpanded(parseObject(bytes, `the metadata of ${packageName}`), packageName) !== null,

  /** Reads the versions of a package in packages.json. `versions` is one JSON, or several ones after another. */
  readInline(
    versions: Uint8Array,
    ends: readonly number[],
    packageName: string,
    part: PartWanted,
  ): PackedDocument | null {
    const parts = ends.map((end, i) => versions.subarray(ends[i - 1] ?? 0, end))
    const checked = readDocument(inlineDocument(parts, packageName), packageName, part)
    return checked && packDocument(checked)
  },

  /** Returns the parts of stored content that the database needs. */
  summarize: (packed: Uint8Array): ContentSummary => summarize(unpackContent(packed)),

  /** Renders the document that is served. */
  render: (packed: Uint8Array, rules: PackedRules): Promise<EncodedOffer> =>
    renderContent(unpackContent(packed), rules),

  /** Returns those of the archives that stored content has. */
  keepOffered: (packed: Uint8Array, archives: readonly string[]): string[] =>
    offeredArchives(unpackContent(packed), archives),

  /** Returns what stored content contains, for people. */
  describe: (packed: Uint8Array, question: ContentQuestion): DescribedContent =>
    describeContent(unpackContent(packed), question),

  /** Returns the advisories in stored content. */
  advisoriesOf: (packed: Uint8Array, packageName: string): ServedAdvisory[] =>
    contentAdvisories(unpackContent(packed), packageName),
}

/** Returns the versions of a package in packages.json and its includes as a document. */
export function inlineDocument(parts: readonly Uint8Array[], packageName: string): JsonObject {
  const lists = parts.map((part) => JSON.parse(textOf(part)) as Json)
  const [first = null] = lists
  const all = lists.length === 1 ? first : (lists.flatMap(versionList) as Json[])
  return { packages: { [packageName]: all } }
}
