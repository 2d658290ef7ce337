import { isJsonObject, type Json, type JsonObject } from '../registry/manifest/manifest-json.ts'

/** What a package's page shows of its composer.json. */
export interface Manifest {
  description: string
  type: string
  licenses: string[]
  keywords: string[]
  authors: string[]
  homepage: string | null
  source: string | null
  /** Requirements and the like; those that say nothing are left out. */
  links: { title: string; entries: [name: string, constraint: string][] }[]
}

const linkTitles = {
  require: 'Requires',
  'require-dev': 'Requires for development',
  suggest: 'Suggests',
  provide: 'Provides',
  replace: 'Replaces',
  conflict: 'Conflicts with',
}

/** Picks from stored metadata what people read; what is not of the usual shape is left out. */
export function readManifest(metadata: JsonObject): Manifest {
  const { description, type, license, keywords, authors, homepage, support } = metadata
  const links = Object.entries(linkTitles).map(([key, title]) => ({
    title,
    entries: isJsonObject(metadata[key]) ? Object.entries(metadata[key]).filter(isTextEntry) : [],
  }))
  return {
    description: textOf(description) ?? '',
    type: textOf(type) ?? 'library',
    licenses: textsOf(license),
    keywords: textsOf(keywords),
    authors: listOf(authors).flatMap((author) => (isJsonObject(author) && textOf(author['name'])) || []),
    homepage: webAddress(homepage),
    source: isJsonObject(support) ? webAddress(support['source']) : null,
    links: links.filter(({ entries }) => entries.length > 0),
  }
}

function isTextEntry(entry: [string, Json]): entry is [string, string] {
  return typeof entry[1] === 'string'
}

function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

function textsOf(value: Json | undefined): string[] {
  return listOf(value).flatMap((text) => textOf(text) ?? [])
}

function listOf(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : []
}

/** Other schemes, such as `javascript:`, are no links here. */
function webAddress(value: Json | undefined): string | null {
  const text = textOf(value)
  return text !== null && /^https?:\/\//i.test(text) ? text : null
}
