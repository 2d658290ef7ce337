import { isConstraint } from '../../composer/constraint.ts'
import { isJsonObject, type Json, type JsonObject } from '../../composer/manifest-json.ts'
import { UpstreamError } from '../client/upstream-error.ts'
import { versionList } from '../client/upstream-root.ts'
import { parseObject } from './parse-object.ts'
import { jsonForPhp, type UpstreamContent } from './read-document.ts'

/** The size of the advisories of one name. Several hundred of them have about half of that. */
const maxNameCharacters = 1024 * 1024
/** The number of advisories of all names together. */
const maxAdvisories = 50_000

/** The keys that Composer reads if they are there. Another type than text ends `composer audit` with an error. */
const optionalTexts = ['cve', 'link', 'severity']
/** The formats of a date that PHP and JavaScript both read, except for days and hours that do not exist. */
const date =
  /^[12]\d{3}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)? ?(?:Z|[+-](?:[01]\d|2[0-4]):?[0-5]\d)?)?$/
const noDate = '1970-01-01 00:00:00'

/** An advisory that Composer can read. A null value is missing, or cannot be read. */
interface ReadAdvisory {
  /** All keys but title, sources and reportedAt. */
  kept: JsonObject
  advisoryId: string
  affectedVersions: string
  title: string | null
  sources: Json[] | null
  reportedAt: string | null
}

/** An advisory as `composer audit` reads it. */
export interface ServedAdvisory {
  advisoryId: string
  /** The advisory as JSON. */
  text: string
}

/**
 * Parses the response of an API for advisories, and returns those of the names that the request had, in the order of
 * these names. Throws `UpstreamError` when it has another format, or when they are too large: a part of them would mean
 * "no other advisories".
 */
export function parseAdvisories(
  bytes: Uint8Array,
  names: readonly string[],
  url: string,
): ServedAdvisory[][] {
  const { advisories } = parseObject(bytes, 'the advisories')
  // PHP writes an empty object as `[]`.
  const said = Array.isArray(advisories) && advisories.length === 0 ? {} : advisories
  if (!isJsonObject(said)) throw new UpstreamError(`${url} returned no advisories`)
  const found = names.map((name) => advisoryTexts(said[name], name))
  if (found.flat().length > maxAdvisories) throw new UpstreamError(`${url} returned too many advisories`)
  return found
}

/** Returns the advisories in stored content. Throws `UpstreamError` when they are too large. */
export function contentAdvisories({ extra }: UpstreamContent, packageName: string): ServedAdvisory[] {
  return advisoryTexts(extra['security-advisories'], packageName)
}

function advisoryTexts(listed: Json | undefined, name: string): ServedAdvisory[] {
  const texts = completeAdvisories(listed).map((advisory) => ({
    advisoryId: advisory['advisoryId'] as string,
    text: JSON.stringify(advisory),
  }))
  if (texts.reduce((sum, { text }) => sum + text.length, 0) > maxNameCharacters)
    throw new UpstreamError(`the advisories of ${name} are larger than ${maxNameCharacters} characters`)
  return texts
}

/**
 * Returns the advisories of a document as `composer update` may read them. An advisory without a readable title, sources
 * or date stays partial: only its id and its versions. Composer 2.9 and later then ask the API for the full one, which
 * has the CVE that a project may ignore. Leaves out advisories without id or versions. PHP writes a list with gaps as an
 * object.
 */
export function documentAdvisories(listed: Json | undefined): JsonObject[] {
  return read(listed).map(({ kept, advisoryId, affectedVersions, ...full }) =>
    Object.values(full).includes(null) ? { advisoryId, affectedVersions } : { ...kept, ...full },
  )
}

/**
 * Returns the advisories of a list for the API, with all keys that `composer audit` needs: it ends with an error when
 * title, sources or reportedAt are missing, and when one of the keys cannot be read. Leaves out advisories without id or
 * versions.
 */
function completeAdvisories(listed: Json | undefined): JsonObject[] {
  return read(listed).map(({ kept, advisoryId, title, sources, reportedAt }) => ({
    ...kept,
    title: title ?? advisoryId,
    sources: sources ?? [],
    reportedAt: reportedAt ?? noDate,
  }))
}

function read(listed: Json | undefined): ReadAdvisory[] {
  return (versionList(listed) as Json[]).filter(isJsonObject).flatMap(readAdvisory)
}

function readAdvisory(advisory: JsonObject): ReadAdvisory[] {
  const { advisoryId, affectedVersions, title, sources, reportedAt, ...others } = advisory
  if (typeof advisoryId !== 'string' || typeof affectedVersions !== 'string') return []
  if (!isConstraint(affectedVersions) || jsonForPhp(advisory) === null) return []
  const kept = Object.entries(others).filter(
    ([key, value]) => !optionalTexts.includes(key) || value === null || typeof value === 'string',
  )
  return [
    {
      kept: { advisoryId, affectedVersions, ...Object.fromEntries(kept) },
      advisoryId,
      affectedVersions,
      title: typeof title === 'string' ? title : null,
      sources: Array.isArray(sources) ? sources.filter(isSource) : null,
      reportedAt: isDate(reportedAt) ? reportedAt : null,
    },
  ]
}

function isSource(source: Json): boolean {
  return isJsonObject(source) && typeof source['name'] === 'string' && typeof source['remoteId'] === 'string'
}

function isDate(text: Json | undefined): text is string {
  return typeof text === 'string' && date.test(text) && !Number.isNaN(Date.parse(text))
}
