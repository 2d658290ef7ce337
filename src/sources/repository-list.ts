import { isJsonObject, type Json, type JsonObject } from '../composer/manifest-json.ts'
import { cleanLine } from '../domain/plain-text.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { fromScpSyntax } from './source-url.ts'
import { maxSources } from './sources.ts'

/** The Git repositories that a file lists, and what of the file no source can take over. */
export interface RepositoryList {
  /** URLs in the order of the file, each one once. They may be invalid. */
  urls: string[]
  /** Entries that are no Git repository. */
  skipped: { what: string; reason: string }[]
  /** Settings of the file that change nothing here, each with what to do instead. */
  notes: string[]
}

/** The maximum size of the file in bytes. A satis.json can have the metadata of thousands of packages. */
export const maxListBytes = 4 * 1024 ** 2

/** The types of Composer's repositories that are Git repositories. `vcs` may be another one, which its reading tells. */
const gitTypes = new Set(['vcs', 'git', 'github', 'gitlab', 'bitbucket', 'git-bitbucket', 'forgejo'])

/** Why other types are skipped. */
const skippedTypes: Record<string, string> = {
  composer: 'it is a Composer registry: add it with svc upstream add, or copy it with svc import',
  package: 'it is the metadata of a package without a Git repository: upload its archive',
  artifact: 'it is a folder of archives: upload them',
  path: 'it is a folder of one machine: push it to a Git server, or upload its archive',
  'mono-repo': 'it has several packages: add a source for each with svc source add --path',
}

const takesAll = 'A source publishes every tag and branch: choose with --tags and --branches.'
const takesUpstreams = 'Packages of other registries come from upstreams: see svc upstream add.'
const takesFiles = 'Name a token with --secret-file, and an SSH key with --ssh-key-file.'

/** What to do instead of settings of a satis.json. Those that are missing here are about its output. */
const insteadOf: Record<string, string> = {
  require: takesAll,
  blacklist: takesAll,
  'minimum-stability': takesAll,
  'minimum-stability-per-package': takesAll,
  'only-best-candidates': takesAll,
  'include-types': takesAll,
  'exclude-types': takesAll,
  'require-dependencies': takesUpstreams,
  'require-dev-dependencies': takesUpstreams,
  'only-dependencies': takesUpstreams,
  'repositories-dep': takesUpstreams,
  abandoned: 'Mark each package with svc package abandon.',
  archive: 'Every version has an archive that svc makes. For releases only, add --branches "".',
  'strip-hosts': 'Leave the URLs of the Git repositories out of the metadata with --hide-source.',
  config: takesFiles,
}

/** The same for settings of an entry. */
const insteadOfEntry: Record<string, string> = { only: takesAll, exclude: takesAll, options: takesFiles }

/**
 * Reads a list of repositories: a JSON list of URLs, or `repositories` as Composer and Satis write them. Throws errcode 3
 * when it is none, or has more Git repositories than a repository can have sources.
 */
export function readRepositoryList(text: string): RepositoryList {
  const file = parse(text)
  const settings = isJsonObject(file) ? file : {}
  const listed = Array.isArray(file) ? file : settings['repositories']
  if (typeof listed !== 'object' || listed === null)
    throw invalid('the file must be a list of URLs, or have "repositories" as satis.json has')
  const urls = new Set<string>()
  const skipped: RepositoryList['skipped'] = []
  const unused = listUnused(settings, insteadOf)
  for (const [key, entry] of Object.entries(listed)) {
    const read = readEntry(entry, Array.isArray(listed) ? `entry ${Number(key) + 1}` : key)
    if ('reason' in read) skipped.push(read)
    else {
      urls.add(read.url)
      if (isJsonObject(entry)) unused.push(...listUnused(entry, insteadOfEntry))
    }
  }
  if (urls.size > maxSources)
    throw invalid(
      `the file has ${urls.size} Git repositories: a repository can have at most ${maxSources} sources`,
    )
  return { urls: [...urls], skipped, notes: describeUnused(unused) }
}

function parse(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch {
    throw invalid('the file is not valid JSON')
  }
}

function readEntry(entry: Json, label: string): { url: string } | { what: string; reason: string } {
  if (typeof entry === 'string') return { url: fromScpSyntax(entry) }
  if (entry === false) return { what: cleanLine(label), reason: 'it only switches a registry off' }
  if (!isJsonObject(entry)) return { what: cleanLine(label), reason: 'it is neither a URL nor an object' }
  const [first, ...others] = Object.entries(entry)
  if (first?.[1] === false && others.length === 0) return readEntry(false, first[0])
  const { type, url } = entry
  if (typeof type === 'string' && gitTypes.has(type) && typeof url === 'string')
    return { url: fromScpSyntax(url) }
  return { what: describeEntry(entry, label), reason: reasonAgainst(entry) }
}

function reasonAgainst({ type, url }: JsonObject): string {
  if (typeof type !== 'string') return 'it has no type'
  if (gitTypes.has(type) && typeof url !== 'string') return 'it has no URL'
  return skippedTypes[type] ?? `a source reads Git only, not "${cleanLine(type)}"`
}

/** Returns the type of an entry and its URL, or else the name of its package. */
function describeEntry({ type, url, package: inline }: JsonObject, label: string): string {
  const name = isJsonObject(inline) && typeof inline['name'] === 'string' ? inline['name'] : null
  const place = typeof url === 'string' ? withoutSecrets(url) : (name ?? label)
  return cleanLine(typeof type === 'string' ? `${type} ${place}` : place)
}

/** Returns a URL as it may be shown: without a password, a user that may be a token, and a query. The user of SSH stays. */
export function withoutSecrets(url: string): string {
  const bare = url.replace(/[?#].*$/s, '')
  const [, scheme, user] = /^([\w+-]+:\/\/)([^/]*)@/.exec(bare) ?? []
  if (scheme === undefined || user === undefined) return bare
  if (/^ssh:/i.test(scheme) && !user.includes(':')) return bare
  return scheme + bare.slice(scheme.length + user.length + 1)
}

interface Unused {
  name: string
  advice: string
}

function listUnused(settings: JsonObject, known: Record<string, string>): Unused[] {
  return Object.entries(known)
    .filter(([name]) => Object.hasOwn(settings, name) && asksForSomething(name, settings[name] as Json))
    .map(([name, advice]) => ({ name, advice }))
}

function asksForSomething(name: string, value: Json): boolean {
  if (name === 'minimum-stability') return value !== 'dev'
  return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value)
}

function describeUnused(unused: readonly Unused[]): string[] {
  return [...new Set(unused.map(({ advice }) => advice))].map((advice) => {
    const names = new Set(unused.filter((one) => one.advice === advice).map(({ name }) => name))
    return `Not used: ${[...names].join(', ')}. ${advice}`
  })
}

function invalid(errmsg: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg)
}
