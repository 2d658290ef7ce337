import { createHash } from 'node:crypto'
import type { Queryable } from '../../database/database.ts'
import { nameRange } from '../../database/name-range.ts'
import { asCount } from './downloads.ts'

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

/** How many packages a search reads without an index: those with the shortest names. */
const maxWalked = 2_000
/** How many packages a search by index ranks at most. */
const maxRanked = 2_000
/** How many grams a search looks up. The statement then checks the texts of the found packages. */
const maxGrams = 6
const maxResults = 100

const isListed = 'exists (select from package_version v where v.package_id = p.id and v.is_listed)'
const byLength = 'char_length(p.name), p.name collate "C"'
const hitColumns = 'p.id, p.name, p.description, p.keywords, p.type, p.abandoned_at, p.replacement'
const inName = 'strpos(p.name, w) > 0'
const inTexts = `(${inName} or strpos(lower(p.description), w) > 0 or strpos(lower(array_to_string(p.keywords, ' ')), w) > 0)`
const everyWord = (isFound: string) => `not exists (select from unnest($2::text[]) w where not ${isFound})`
const isOfType = '($3::text is null or p.type = $3)'

/** The best of `matches`: first the packages with the most words in the name, then the shortest names. */
const bestMatches = `
  select m.name, m.description, m.total::int, m.abandoned_at is not null as "isAbandoned", m.replacement,
         ${asCount('(select count from package_download_total where package_id = m.id)')} as downloads
    from (select p.*, count(*) over () as total,
                 row_number() over (
                   order by (select count(*) from unnest($2::text[]) w where ${inName}) desc, ${byLength}) as place
            from matches p) m
   where m.place <= ${maxResults}`

interface MatchRow {
  name: string | null
  description: string
  total: number
  isAbandoned: boolean
  replacement: string | null
  downloads: number
}

/**
 * Finds the packages with all of the words in name, description or keywords. The words are in lower case.
 *
 * The cost is bounded, however many packages there are. In a repository with at most 2,000 packages, it reads them all.
 * In a larger one, it first reads the packages with the shortest names, which often contain enough matches of a
 * frequent word. An index finds rare words. The index has words of two letters only for names.
 */
export async function searchPackages(
  db: Queryable,
  repositoryId: string,
  words: readonly string[],
  type: string | null,
): Promise<PackageMatches> {
  const { found, isAll, hasBest } = await walkPackages(db, repositoryId, words, type)
  if (isAll || hasBest) return found
  const types = type === null ? [] : [typeGram(type)]
  const names = [...types, ...some(words.flatMap((word) => gramsOf(word, 'name')))]
  // Words that were found often enough are looked up only in names, because a match in the name is a better match.
  const isFrequent = found.results.length === maxResults
  const texts = isFrequent ? [] : [...types, ...some(words.flatMap((word) => gramsOf(word, 'text')))]
  const lookedUp = await lookUpPackages(db, repositoryId, { words, type, names, texts })
  const known = new Set(lookedUp.results.map(({ name }) => name))
  const others = found.results.filter(({ name }) => !known.has(name))
  return {
    results: [...lookedUp.results, ...others].slice(0, maxResults),
    total: Math.max(lookedUp.total, found.total, known.size + others.length),
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
  const grams = some(gramsOf(text, 'text'))
  if (grams.length === 0) return null
  const { rows } = await db.query<{ id: string }>(
    `select id from look_up_packages($1, $2, array[$3], in_names => false, max_count => ${maxRanked}) as id`,
    [repositoryId, grams, text],
  )
  return rows.length < maxRanked ? rows.map(({ id }) => id) : null
}

/** Searches the packages with the shortest names. */
async function walkPackages(
  db: Queryable,
  repositoryId: string,
  words: readonly string[],
  type: string | null,
): Promise<{ found: PackageMatches; isAll: boolean; hasBest: boolean }> {
  const { rows } = await db.query<MatchRow & { walked: number; named: number }>({
    name: 'walk-packages',
    text: `with walked as materialized (
             select ${hitColumns} from package p where p.repository_id = $1 order by ${byLength} limit ${maxWalked}
           ), matches as materialized (
             select p.* from walked p where ${isOfType} and ${everyWord(inTexts)} and ${isListed}
           )
           select (select count(*)::int from walked) as walked,
                  (select count(*)::int from matches p where ${everyWord(inName)}) as named, best.*
             from (values (true)) as one (row) left join lateral (${bestMatches}) best on true`,
    values: [repositoryId, words, type],
  })
  const { walked = 0, named = 0 } = rows[0] ?? {}
  return { found: resultsOf(rows), isAll: walked < maxWalked, hasBest: named >= maxResults }
}

/** Searches by the index: first packages with all words in the name, then packages with a word elsewhere. */
async function lookUpPackages(
  db: Queryable,
  repositoryId: string,
  {
    words,
    type,
    names,
    texts,
  }: { words: readonly string[]; type: string | null; names: readonly number[]; texts: readonly number[] },
): Promise<PackageMatches> {
  const { rows } = await db.query<MatchRow>({
    text: `with matches as materialized (
             select ${hitColumns}
               from package p
              where p.id in (select look_up_packages($1, $4, $2, in_names => true, max_count => ${maxRanked})
                              union
                             select look_up_packages($1, $5, $2, in_names => false, max_count => ${maxRanked}))
                and ${isOfType} and ${isListed}
           )
           ${bestMatches}`,
    values: [repositoryId, words, type, names, texts],
  })
  return resultsOf(rows)
}

function resultsOf(rows: readonly MatchRow[]): PackageMatches {
  const results = rows.flatMap(
    ({ name, description, downloads, isAbandoned, replacement }): SearchResult[] =>
      name === null
        ? []
        : [
            {
              name,
              description,
              downloads,
              ...(isAbandoned && { abandoned: replacement ?? (true as const) }),
            },
          ],
  )
  return { results, total: results.length === 0 ? 0 : (rows[0]?.total ?? 0) }
}

/** Returns the keys of a word in the index `package_search`, like the SQL function `search_grams`. */
export function gramsOf(word: string, where: 'name' | 'text'): number[] {
  const bytes = Buffer.from(word)
  const size = where === 'name' && bytes.length === 2 ? 2 : 3
  const kind = where === 'text' ? 0 : size === 3 ? 1 : 2
  return Array.from(
    { length: Math.max(bytes.length - size + 1, 0) },
    (_, i) => bytes.subarray(i, i + size).reduce((key, byte) => key * 256 + byte, 0) + kind * 2 ** 24,
  )
}

function typeGram(type: string): number {
  return createHash('sha256').update(type).digest().readUIntBE(0, 3) + 3 * 2 ** 24
}

/** Returns some of the grams, spread over the whole word. */
export function some(grams: readonly number[], max = maxGrams): number[] {
  const step = Math.max(grams.length / max, 1)
  return Array.from({ length: Math.min(grams.length, max) }, (_, i) => grams[Math.floor(i * step)] ?? 0)
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
  const { rows } = await db.query<{ name: string }>(
    `select p.name from package p
      where p.repository_id = $1 and p.name collate "C" > $2
        and p.name collate "C" >= $3 and p.name collate "C" < $3 || '{'
        and p.name like all ($4::text[]) and ${isListed}
      order by p.name collate "C" limit $5`,
    [repositoryId, after, start, likePatterns, limit],
  )
  return rows.map(({ name }) => name)
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
              limit ${maxRanked}) p
      order by p.name collate "C" limit ${maxResults}`,
    [repositoryId, name],
  )
  return rows
}
