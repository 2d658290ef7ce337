import type { Queryable } from '../../database/database.ts'
import { isInNameRange, nameRange } from '../../database/name-range.ts'
import { asCount } from './downloads.ts'
import { indexedPatterns, matchesAll } from './text-index.ts'

/** A package in the results of a search. */
export interface SearchResult {
  name: string
  description: string
  downloads: number
  abandoned?: true | string
}

/** The results of a search. */
export interface PackageMatches {
  /** The best matches first, at most 100. */
  results: SearchResult[]
  /** How many packages match. Counting stops at a few thousand. */
  total: number
}

/** How many packages a search reads without the index of texts: those with the shortest names. */
const maxWalked = 2_000
/** How many packages a search by index ranks at most, by their names and by their texts. */
const maxLookedUp = 2_000
const maxResults = 100

const isListed = 'exists (select from package_version v where v.package_id = p.id and v.is_listed)'
const byLength = 'char_length(p.name), p.name collate "C"'
const inName = 'strpos(p.name, w) > 0'
const inTexts = `(${inName} or strpos(lower(p.description), w) > 0 or strpos(lower(array_to_string(p.keywords, ' ')), w) > 0)`
const everyWord = (isFound: string) => `not exists (select from unnest($2::text[]) w where not ${isFound})`
const wordsInName = `(select count(*) from unnest($2::text[]) w where ${inName})`

/**
 * Finds the packages with all of the words in name, description or keywords. The words are in lower case.
 *
 * The cost is bounded, however many packages there are. Up to 2,000 packages, of the type if one is given, are all read.
 * If there are more, those with the shortest names are read, which often contain enough matches of a frequent word. If
 * they do not, the index finds more: packages with all words in the name, which are better matches, and if few packages
 * were found at all, packages with a word elsewhere.
 */
export async function searchPackages(
  db: Queryable,
  repositoryId: string,
  words: readonly string[],
  type: string | null,
): Promise<PackageMatches> {
  const patterns = indexedPatterns(words)
  const values: unknown[] = [repositoryId, words]
  const isOfType = type === null ? 'true' : `p.type = $${values.push(type)}`
  const { rows } = await db.query<{
    name: string
    description: string
    total: number
    isAbandoned: boolean
    replacement: string | null
    downloads: number
  }>({
    name: `search-packages-${type === null ? 'any' : 'type'}-${patterns.names.length}-${patterns.texts.length}`,
    text: `with walked as materialized (
             select p.id, p.name, p.description, p.keywords
               from package p where p.repository_id = $1 and ${isOfType} order by ${byLength} limit ${maxWalked}
           ), near as materialized (
             select p.id, p.name, ${everyWord(inName)} as is_named
               from walked p where ${everyWord(inTexts)} and ${isListed}
           ), enough as materialized (
             select (select count(*) from walked) < ${maxWalked} as is_all,
                    count(*) filter (where is_named) >= ${maxResults} as in_names,
                    count(*) >= ${maxResults} as in_texts
               from near
           ), looked_up as materialized (
             (select p.id, p.name from package p
               where (select not is_all and not in_names from enough)
                 and p.repository_id + 0 = $1 and ${matchesAll('names', patterns, values)}
                 and ${isOfType} and ${everyWord(inName)}
               limit ${maxLookedUp})
              union
             (select p.id, p.name from package p
               where (select not is_all and not in_texts from enough)
                 and p.repository_id + 0 = $1 and ${matchesAll('texts', patterns, values)}
                 and ${isOfType} and ${everyWord(inTexts)}
               limit ${maxLookedUp})
           ), matches as materialized (
             select id, name from near union select id, name from looked_up p where ${isListed}
           )
           select p.name, p.description, best.total, p.abandoned_at is not null as "isAbandoned", p.replacement,
                  ${asCount('(select count from package_download_total where package_id = p.id)')} as downloads
             from (select p.id, count(*) over ()::int as total, ${wordsInName} as words
                     from matches p order by words desc, ${byLength} limit ${maxResults}) best
             join package p on p.id = best.id
            order by best.words desc, ${byLength}`,
    values,
  })
  return {
    results: rows.map(({ name, description, downloads, isAbandoned, replacement }) => ({
      name,
      description,
      downloads,
      ...(isAbandoned && { abandoned: replacement ?? (true as const) }),
    })),
    total: rows[0]?.total ?? 0,
  }
}

/**
 * Finds the ids of the packages with the text in name, description or keywords, by the index. Null when the text is too
 * short for the index. Null also when the text is so frequent that a list in any order soon finds enough packages.
 */
export async function findRarePackages(
  db: Queryable,
  repositoryId: string,
  text: string,
): Promise<string[] | null> {
  const patterns = indexedPatterns([text])
  if (patterns.texts.length === 0) return null
  const values: unknown[] = [repositoryId]
  const { rows } = await db.query<{ id: string }>(
    `select p.id from package p
      where p.repository_id + 0 = $1 and ${matchesAll('texts', patterns, values)}
      limit ${maxLookedUp}`,
    values,
  )
  return rows.length < maxLookedUp ? rows.map(({ id }) => id) : null
}

/** The maximum number of names in one list. */
export const maxListedNames = 10_000

/**
 * Lists the names of packages with a listed version that match all of the patterns. `*` stands for any text. The names
 * are in byte order, begin after the name `after`, and are at most `limit`.
 */
export async function listPackageNames(
  db: Queryable,
  repositoryId: string,
  patterns: readonly string[],
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const { start, likePatterns } = nameRange(patterns)
  // One row, because pg takes most of the time for thousands of small ones.
  const { rows } = await db.query<{ names: string[] }>(
    `select coalesce(json_agg(name), '[]') as names
       from (select p.name from package p
              where p.repository_id = $1 and ${isInNameRange('p.name')} and ${isListed}
              order by p.name collate "C" limit $5) p`,
    [repositoryId, after, start, likePatterns, limit],
  )
  return rows[0]?.names ?? []
}

/** A package that provides another one. */
export interface PackageProvider {
  name: string
  description: string
  type: string
}

/** Lists packages whose latest version provides the name, by name. At most 100. */
export async function listProviders(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<PackageProvider[]> {
  const { rows } = await db.query<PackageProvider>(
    `select name, description, type
       from (select p.name, p.description, p.type from package p
              where p.repository_id = $1 and p.provides @> array[$2::text] and ${isListed}
              limit ${maxLookedUp}) p
      order by p.name collate "C" limit ${maxResults}`,
    [repositoryId, name],
  )
  return rows
}
