import { isJsonObject, type Json, type JsonObject } from '../../composer/manifest-json.ts'

/** The parts of composer.json that a package's page shows. */
export interface ManifestSummary {
  description: string
  type: string
  licenses: string[]
  keywords: string[]
  authors: string[]
  homepage: string | null
  source: string | null
  /** Where users get help, besides `source`. */
  support: { title: string; url: string }[]
  requires: Link[]
  /** Requirements and similar links. Empty ones are left out. */
  links: { title: string; entries: Link[] }[]
}

type Link = [name: string, constraint: string]

const linkTitles = {
  require: 'Requires',
  'require-dev': 'Requires for development',
  suggest: 'Suggests',
  provide: 'Provides',
  replace: 'Replaces',
  conflict: 'Conflicts with',
}

const supportTitles = {
  issues: 'Issues',
  docs: 'Documentation',
  forum: 'Forum',
  chat: 'Chat',
  wiki: 'Wiki',
  irc: 'IRC',
  rss: 'RSS',
  security: 'Security policy',
  email: 'Email',
}

/** Returns the parts of stored metadata that the page shows. Leaves out values of unexpected types. */
export function readManifest(metadata: JsonObject): ManifestSummary {
  const { description, type, license, keywords, authors, homepage, support } = metadata
  const links = Object.entries(linkTitles).map(([key, title]) => ({ title, entries: linksOf(metadata[key]) }))
  return {
    description: textOf(description) ?? '',
    type: textOf(type) ?? 'library',
    licenses: textsOf(license),
    keywords: textsOf(keywords),
    authors: listOf(authors).flatMap((author) => (isJsonObject(author) && textOf(author['name'])) || []),
    homepage: webUrl(homepage),
    source: isJsonObject(support) ? webUrl(support['source']) : null,
    support: isJsonObject(support) ? supportOf(support) : [],
    requires: linksOf(metadata['require']),
    links: links.filter(({ entries }) => entries.length > 0),
  }
}

function supportOf(support: JsonObject): ManifestSummary['support'] {
  return Object.entries(supportTitles).flatMap(([key, title]) => {
    const value = support[key]
    const email = key === 'email' ? textOf(value) : null
    const url =
      email === null
        ? webUrl(value, /^(?:https?|ircs?):\/\//i)
        : `mailto:${encodeURIComponent(email).replaceAll('%40', '@')}`
    return url === null ? [] : { title, url }
  })
}

function linksOf(value: Json | undefined): Link[] {
  if (!isJsonObject(value)) return []
  return Object.entries(value).filter((entry): entry is Link => typeof entry[1] === 'string')
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

/** Returns a URL with one of the schemes. Null for others, such as `javascript:`. */
function webUrl(value: Json | undefined, schemes = /^https?:\/\//i): string | null {
  const text = textOf(value)
  return text !== null && schemes.test(text) ? text : null
}
