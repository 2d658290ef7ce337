import { isPlainText } from '../domain/plain-text.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { isJsonObject, type Json, type JsonObject } from './manifest-json.ts'

/** The names of the three values: as query parameters and form fields, and as Composer's push plugins send them. */
const parts = {
  type: ['source-type', 'src-type'],
  url: ['source-url', 'src-url'],
  reference: ['source-reference', 'src-ref'],
} as const
const partNames = new Set<string>(Object.values(parts).flat())

/** The types that Composer can download. */
const types = ['git', 'hg', 'svn', 'fossil', 'perforce']
// A user or host that begins with - would be an option of git or ssh.
const urlShape =
  /^(?:(?:https?|ssh|git|svn|svn\+ssh):\/\/(?:[\w.][^\s/?#@\\]*@)?(?!-)[^\s/?#@\\]+(?:\/[^\s\\]*)?|\w[\w.-]*@\w[\w.-]*:[^\s\\]+)$/i
const referenceShape = /^[\w][\w./@+-]{0,199}$/

/** Returns whether a form field or query parameter is a part of the source of an upload. */
export function isSourcePart(name: string): boolean {
  return partNames.has(name)
}

/**
 * Returns the `source` of an upload: the place of its code, for Composer's `--prefer-source` and for tools that show
 * changes. Null if the upload names none. Throws errcode 3 unless it has a type, a URL and a reference that Composer
 * can use.
 */
export function readSource(sent: ReadonlyMap<string, string>): JsonObject | null {
  const read = (names: readonly string[]) => names.map((name) => sent.get(name)).find((value) => value) ?? ''
  const source = { type: read(parts.type), url: read(parts.url), reference: read(parts.reference) }
  if (Object.values(source).every((value) => value === '')) return null
  const problem = problemOf(source)
  if (problem === null) return source
  throw new Refusal(errcode.invalidArgument, `${parts[problem.part][0]} ${problem.wrong}`)
}

/** Returns the `source` of a version of another registry. Null unless Composer can use it. */
export function usableSource(given: Json | undefined): JsonObject | null {
  if (!isJsonObject(given)) return null
  const { type, url, reference } = given
  if (typeof type !== 'string' || typeof url !== 'string' || typeof reference !== 'string') return null
  const source = { type, url, reference }
  return problemOf(source) === null ? source : null
}

/** Returns the part of a source that Composer cannot use, and what is wrong with it. Null for a good source. */
function problemOf({
  type,
  url,
  reference,
}: Record<keyof typeof parts, string>): { part: keyof typeof parts; wrong: string } | null {
  if (!types.includes(type)) return { part: 'type', wrong: `must be one of ${types.join(', ')}` }
  if (url.length > 2048 || !urlShape.test(url) || !isPlainText(url))
    return { part: 'url', wrong: 'must be a URL such as https://git.example.com/acme/lib.git' }
  if (/^[a-z+]+:\/\/[^/?#]*:[^/?#]*@/i.test(url)) return { part: 'url', wrong: 'must not contain a password' }
  if (!referenceShape.test(reference))
    return { part: 'reference', wrong: 'must be a commit, such as the output of git rev-parse HEAD' }
  return null
}
