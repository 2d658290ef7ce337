import { type Filter, parse } from 'scim2-parse-filter'
import { ScimRefusal } from './errors.ts'

const maxCharacters = 1000

/** A comparison of a filter: the value of an attribute, whose name has lower-case letters. */
export interface FilterTerm {
  attribute: string
  value: string
}

/**
 * Reads a filter (RFC 7644 §3.4.2.2): comparisons with `eq`, all of which must hold. Directories find users and groups with
 * these only. `emails[type eq "work" and value eq "…"]` is a comparison of `emails.value`. Throws for all other filters.
 */
export function readFilter(text: string | undefined): FilterTerm[] {
  if (text === undefined || text === '') return []
  if (text.length > maxCharacters) throw unsupported(`is longer than ${maxCharacters} characters`)
  let filter: Filter
  try {
    filter = parse(text)
  } catch {
    throw unsupported('cannot be read')
  }
  return comparisonsIn(filter)
}

function comparisonsIn(filter: Filter): FilterTerm[] {
  if (filter.op === 'and') return filter.filters.flatMap(comparisonsIn)
  if (filter.op === 'eq') {
    return [
      { attribute: withoutSchema(filter.attrPath).toLowerCase(), value: String(filter.compValue ?? '') },
    ]
  }
  if (filter.op === '[]') {
    const attribute = withoutSchema(filter.attrPath).toLowerCase()
    return comparisonsIn(filter.valFilter)
      .filter((inner) => inner.attribute === 'value')
      .map(({ value }) => ({ attribute: `${attribute}.value`, value }))
  }
  throw unsupported('may have comparisons with eq, and between them, and nothing else')
}

/** Returns the name of an attribute without the schema before it, which directories may write. */
export function withoutSchema(path: string): string {
  return path.replace(/^urn:ietf:params:scim:schemas:core:2\.0:(?:User|Group):/i, '')
}

/** Returns the refusal of a filter. */
export function unsupported(problem: string): ScimRefusal {
  return new ScimRefusal('invalidFilter', `the filter ${problem}`)
}
