/*
 * The index `package_by_text` has the trigrams of names, and of the texts that the SQL function `search_text` returns.
 * PostgreSQL finds a pattern of `like` by its trigrams. Without any, it would read the whole index.
 */

/** The maximum number of words that a search looks up. The statement checks all words in the found packages. */
const maxPatterns = 8

/** Patterns for the two columns of the index. One without a pattern cannot be searched for these words. */
export interface IndexedPatterns {
  names: string[]
  texts: string[]
}

/**
 * Returns patterns that find the packages with the words, which are in lower case. The longest words come first, because
 * they are probably rare. Words of two letters are found where a package's name begins with them, after the vendor.
 */
export function indexedPatterns(words: readonly string[]): IndexedPatterns {
  const longest = words.toSorted((one, other) => other.length - one.length)
  const some = (patternOf: (word: string) => string | null) =>
    longest
      .map(patternOf)
      .filter((pattern) => pattern !== null)
      .slice(0, maxPatterns)
  const names = some((word) => (hasTrigram(word) ? contains(word) : null))
  const starts = some((word) => (/^[a-z0-9]{2}$/.test(word) ? contains(`/${word}`) : null))
  return { names: names.length > 0 ? names : starts, texts: some(textPattern) }
}

/** Whether a part of a text has a trigram. A trigram may have one character that is neither a letter nor a digit. */
function hasTrigram(part: string): boolean {
  return part.length > 2 && /[a-z0-9]{2}/.test(part)
}

/** In the texts, a word that is not ASCII is found by the hexadecimal form of its bytes. */
function textPattern(word: string): string | null {
  if (/\P{ASCII}/u.test(word)) return contains(Buffer.from(word).toString('hex'))
  return hasTrigram(word) ? contains(word) : null
}

function contains(text: string): string {
  return `%${text.replace(/[\\%_]/g, '\\$&')}%`
}

/**
 * Returns an SQL condition on a package `p`: its name or texts match all of the patterns. False if there are none. Adds
 * the patterns to the values of the statement. The planner does not see them, so it expects few matches, and always uses
 * the index. Without the index, the statement would compute the texts of all packages.
 */
export function matchesAll(
  column: keyof IndexedPatterns,
  patterns: IndexedPatterns,
  values: unknown[],
): string {
  const value = { names: 'p.name', texts: 'search_text(p.name, p.description, p.keywords)' }[column]
  const matches = patterns[column].map((pattern) => `${value} like (select $${values.push(pattern)}::text)`)
  return matches.join(' and ') || 'false'
}
