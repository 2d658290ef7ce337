import { gunzipSync } from 'node:zlib'
import { openThreads, ThreadFailure } from '../../domain/threads.ts'
import { UpstreamError } from '../client/upstream-error.ts'
import { contentAdvisories, type ServedAdvisory } from './complete-advisories.ts'
import { type ContentQuestion, type DescribedContent, describeContent } from './described-content.ts'
import { documentTasks, inlineDocument } from './document-tasks.ts'
import {
  type ContentSummary,
  comparedCharacters,
  type EncodedOffer,
  offeredArchives,
  type PackedDocument,
  type PackedRules,
  packDocument,
  renderContent,
  summarize,
} from './packed-content.ts'
import { parseObject, textOf } from './parse-object.ts'
import { expandDocument, type PartWanted, readUnexpanded, type UpstreamContent } from './read-document.ts'

export type DocumentTasks = typeof documentTasks

/** A task for a thread. */
export interface DocumentTask {
  name: keyof DocumentTasks
  args: unknown[]
}

/** The result of a task, or the message of its `UpstreamError`. */
export type TaskResult = { value: unknown } | { refusal: string }

/** Up to this size, a document is parsed on the main thread. A thread would cost more than the work. */
const smallBytes = 16 * 1024
/** Up to this size, a document is expanded and rendered on the main thread. */
const smallExpanded = 256 * 1024
/** Stored content that is larger is not small when it is unpacked. */
const smallPackedBytes = 64 * 1024
/** Up to this size, constraints are compared with versions on the main thread. */
const smallCompared = 64 * 1024
/** The time limit of a task. The largest documents take about a second. */
const maxMilliseconds = 10_000

/**
 * Two for the whole process, for requests and jobs, because they limit the load of its processor. Idle threads do not
 * keep the process alive.
 */
const threads = openThreads<DocumentTask>(new URL('./document-thread', import.meta.url), {
  count: 2,
  maxHeapMegabytes: 512,
})

/** Whose documents a task reads, such as the id of an upstream. No owner can occupy all threads while others wait. */
export interface TaskOwner {
  owner: string
  /** Whether a transaction waits for the task. */
  isUrgent?: boolean
}

/** Runs a task on what an upstream sent: on the main thread when it is small, otherwise in a thread. */
export async function runTask<Name extends keyof DocumentTasks>(
  owner: TaskOwner,
  name: Name,
  ...args: Parameters<DocumentTasks[Name]>
): Promise<Awaited<ReturnType<DocumentTasks[Name]>>> {
  if (args[0].length > smallBytes) return runInThread(owner, name, ...args)
  const task = documentTasks[name] as (...args: unknown[]) => unknown
  return (await task(...args)) as Awaited<ReturnType<DocumentTasks[Name]>>
}

/** Reads a package's document. Null when it does not contain the package. */
export async function readPackageDocument(
  owner: TaskOwner,
  bytes: Uint8Array,
  packageName: string,
): Promise<PackedDocument | null> {
  if (bytes.length > smallBytes) return runInThread(owner, 'readPackageDocument', bytes, packageName)
  const document = readUnexpanded(parseObject(bytes, `the metadata of ${packageName}`), packageName)
  if (document === null) return null
  if (document.characters > smallExpanded)
    return runInThread(owner, 'readPackageDocument', bytes, packageName)
  return packDocument(expandDocument(document, 'all'))
}

/** Reads the versions of a package in packages.json and its includes. */
export async function readInlineDocument(
  owner: TaskOwner,
  parts: readonly Uint8Array[],
  packageName: string,
  part: PartWanted,
): Promise<PackedDocument | null> {
  let end = 0
  const ends = parts.map(({ length }) => (end += length))
  const bytes = Buffer.concat(parts)
  if (bytes.length > smallBytes) return runInThread(owner, 'readInline', bytes, ends, packageName, part)
  const document = readUnexpanded(inlineDocument(parts, packageName), packageName)
  if (document === null) return null
  if (document.characters > smallExpanded)
    return runInThread(owner, 'readInline', bytes, ends, packageName, part)
  return packDocument(expandDocument(document, part))
}

/** Returns the parts of stored content that the database needs. */
export async function summarizePacked(owner: TaskOwner, packed: Uint8Array): Promise<ContentSummary> {
  const content = unpackSmall(packed)
  return content ? summarize(content) : runInThread(owner, 'summarize', packed)
}

/** Renders the document that is served from stored content. */
export async function renderPacked(
  owner: TaskOwner,
  packed: Uint8Array,
  rules: PackedRules,
): Promise<EncodedOffer> {
  const content = unpackSmall(packed)
  if (content && comparedCharacters(content, rules) <= smallCompared) return renderContent(content, rules)
  const { identity, gzip, br, ...about } = await runInThread(owner, 'render', packed, rules)
  return { identity: toBuffer(identity), gzip: toBuffer(gzip), br: toBuffer(br), ...about }
}

/** Returns those of the archives that stored content has. They are named by `urlOfArchive`. */
export async function keepOffered(
  owner: TaskOwner,
  packed: Uint8Array,
  archives: readonly string[],
): Promise<string[]> {
  const content = unpackSmall(packed)
  return content ? offeredArchives(content, archives) : runInThread(owner, 'keepOffered', packed, archives)
}

/** Returns what stored content contains, for people. */
export async function describePacked(
  owner: TaskOwner,
  packed: Uint8Array,
  question: ContentQuestion,
): Promise<DescribedContent> {
  const content = unpackSmall(packed)
  return content && comparedCharacters(content, question) <= smallCompared
    ? describeContent(content, question)
    : runInThread(owner, 'describe', packed, question)
}

/** Returns the advisories in stored content. */
export async function advisoriesOfPacked(
  owner: TaskOwner,
  packed: Uint8Array,
  packageName: string,
): Promise<ServedAdvisory[]> {
  const content = unpackSmall(packed)
  return content
    ? contentAdvisories(content, packageName)
    : runInThread(owner, 'advisoriesOf', packed, packageName)
}

/** Returns stored content. Null when it is too large for the main thread. */
function unpackSmall(packed: Uint8Array): UpstreamContent | null {
  if (packed.length > smallPackedBytes) return null
  try {
    return JSON.parse(textOf(gunzipSync(packed, { maxOutputLength: smallExpanded }))) as UpstreamContent
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return null
    throw error
  }
}

/** A Buffer arrives from a thread as a plain array of bytes. */
function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Runs a task in a thread. Throws `UpstreamError` when the task does, and when it takes too long or needs too much memory. */
async function runInThread<Name extends keyof DocumentTasks>(
  { owner, isUrgent = false }: TaskOwner,
  name: Name,
  ...args: Parameters<DocumentTasks[Name]>
): Promise<Awaited<ReturnType<DocumentTasks[Name]>>> {
  // The thread gets copies: the caller still needs its bytes, and they may be a part of a longer array.
  const copies = args.map((arg) => (arg instanceof Uint8Array ? new Uint8Array(arg) : arg))
  const options = { milliseconds: maxMilliseconds, isUrgent, owner }
  let result: TaskResult
  try {
    result = await threads.run<TaskResult>({ name, args: copies }, options)
  } catch (error) {
    if (!(error instanceof ThreadFailure)) throw error
    throw new UpstreamError(`a document of the upstream ${error.message}`)
  }
  if ('refusal' in result) throw new UpstreamError(result.refusal)
  return result.value as Awaited<ReturnType<DocumentTasks[Name]>>
}
