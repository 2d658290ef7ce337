import { cleanLine } from '../../domain/plain-text.ts'
import { entriesOf, readObject, saysSomething, type Warn, withoutEmpty } from './manifest-fields.ts'
import { isJsonObject, type Json, type JsonObject } from './manifest-json.ts'
import { refuseManifest } from './manifest-refusal.ts'
import { cleanObject, cleanUrl } from './manifest-text.ts'

/**
 * What is shown of a package: nothing that Composer decides by. So what is odd but does no harm is left out with a
 * warning, and only what would stop Composer is refused.
 */
export function readDescription(manifest: JsonObject, warn: Warn): JsonObject {
  const description = withoutEmpty({
    description: cleanText(manifest['description']),
    keywords: readKeywords(manifest),
    homepage: cleanUrl(manifest['homepage']),
    license: readLicenses(manifest),
    authors: entriesOf(manifest['authors']).flatMap(([, author]) => readAuthor(author)),
    support: readSupport(manifest),
    funding: entriesOf(manifest['funding']).flatMap(([, link]) => readFunding(link)),
    time: readTime(manifest),
    extra: readExtra(manifest),
  })
  for (const field of shownFields) {
    if (saysSomething(manifest[field]) && !(field in description)) {
      warn(`${field} is left out: it says nothing that can be shown`)
    }
  }
  return description
}

const shownFields = 'description keywords homepage license authors support funding time extra'.split(' ')

function cleanText(value: Json | undefined): string | undefined {
  return typeof value === 'string' ? cleanLine(value) : undefined
}

function readKeywords(manifest: JsonObject): string[] {
  return entriesOf(manifest['keywords']).flatMap(([item, keyword]) => {
    if (typeof keyword === 'object' && keyword !== null)
      refuseManifest(`keywords.${item}`, 'must be a string')
    return cleanText(typeof keyword === 'number' ? `${keyword}` : keyword) || []
  })
}

function readLicenses({ license }: JsonObject): string[] {
  const licenses: Json[] =
    typeof license === 'string' ? [license] : entriesOf(license).map(([, text]) => text)
  return licenses.flatMap((text) => cleanText(text) || [])
}

function readAuthor(author: Json): JsonObject[] {
  if (!isJsonObject(author)) return []
  const { name, email, homepage, role } = author
  const known = withoutEmpty({
    name: cleanText(name),
    email: cleanEmail(email),
    homepage: cleanUrl(homepage),
    role: cleanText(role),
  })
  return 'name' in known || 'email' in known ? [known] : []
}

function cleanEmail(value: Json | undefined): string | undefined {
  const email = cleanText(value)
  return email !== undefined && /^[^\s@<>]+@[^\s@<>]+$/.test(email) ? email : undefined
}

function readSupport(manifest: JsonObject): JsonObject | undefined {
  // A text or a number here stops Composer up to 2.5.
  const support = Array.isArray(manifest['support']) ? undefined : readObject(manifest, 'support')
  if (support === undefined) return undefined
  const { email, irc, ...rest } = support
  const links = ['issues', 'forum', 'wiki', 'source', 'docs', 'rss', 'chat', 'security']
  return withoutEmpty({
    email: cleanEmail(email),
    irc: cleanUrl(irc, 'ircs?|https?'),
    ...Object.fromEntries(links.map((key) => [key, cleanUrl(rest[key])])),
  })
}

function readFunding(link: Json): JsonObject[] {
  if (!isJsonObject(link)) return []
  const { type, url } = link
  const known = withoutEmpty({ type: cleanText(type), url: cleanUrl(url) })
  return 'url' in known ? [known] : []
}

/** The release date in RFC 3339. Composer reads a date without a zone as UTC. */
function readTime(manifest: JsonObject): string | undefined {
  const time = manifest['time'] ?? ''
  if (typeof time !== 'string') refuseManifest('time', 'must be a string')
  const parts = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)?)?$/i.exec(
    time,
  )
  if (!parts) return undefined
  const [, day, clock = '00:00', zone = 'Z'] = parts
  const date = new Date(`${day}T${clock}${zone.toUpperCase()}`)
  return Number.isNaN(date.getTime()) ? undefined : `${date.toISOString().slice(0, 19)}+00:00`
}

/** A branch alias goes: it would give the version a second number beside the one it was uploaded under. */
function readExtra({ extra }: JsonObject): JsonObject | undefined {
  if (!isJsonObject(extra)) return undefined
  const { 'branch-alias': _, ...rest } = cleanObject(extra)
  return rest
}
