import { isConstraint } from '../../manifest/constraint.ts'
import { isJsonObject, type Json, type JsonObject } from '../../manifest/manifest-json.ts'
import { versionList } from '../client/upstream-root.ts'
import { jsonForPhp } from './judge-document.ts'

/** The keys that Composer reads if they are there. Another type than text ends `composer audit` with an error. */
const optionalTexts = ['cve', 'link', 'severity']
/** The formats of a date that PHP and JavaScript both read, except for days and hours that do not exist. */
const date =
  /^[12]\d{3}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)? ?(?:Z|[+-](?:[01]\d|2[0-4]):?[0-5]\d)?)?$/
const noDate = '1970-01-01 00:00:00'

/**
 * Returns the advisories of a list that Composer can read, with all keys that `composer audit` needs: it ends with an
 * error when title, sources or reportedAt are missing, and when one of the keys cannot be read. PHP writes a list with
 * gaps as an object. Leaves out advisories without id or versions.
 */
export function completeAdvisories(listed: Json | undefined): JsonObject[] {
  return (versionList(listed) as Json[]).filter(isJsonObject).flatMap(complete)
}

function complete(advisory: JsonObject): JsonObject[] {
  const { advisoryId, affectedVersions, title, sources, reportedAt } = advisory
  if (typeof advisoryId !== 'string' || typeof affectedVersions !== 'string') return []
  if (!isConstraint(affectedVersions) || jsonForPhp(advisory) === null) return []
  const kept = Object.entries(advisory).filter(
    ([key, value]) => !optionalTexts.includes(key) || value === null || typeof value === 'string',
  )
  return [
    {
      ...Object.fromEntries(kept),
      title: typeof title === 'string' ? title : advisoryId,
      sources: Array.isArray(sources) ? sources.filter(isSource) : [],
      reportedAt: isDate(reportedAt) ? reportedAt : noDate,
    },
  ]
}

function isSource(source: Json): boolean {
  return isJsonObject(source) && typeof source['name'] === 'string' && typeof source['remoteId'] === 'string'
}

function isDate(text: Json | undefined): text is string {
  return typeof text === 'string' && date.test(text) && !Number.isNaN(Date.parse(text))
}
