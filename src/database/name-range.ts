/**
 * Returns patterns of names for SQL, and the longest text before a `*`. A statement reads only the part of an index that
 * starts with this text. Every character of a name is below `{`.
 */
export function nameRange(patterns: readonly string[]): { start: string; likePatterns: string[] } {
  const start = patterns
    .map((pattern) => pattern.split('*', 1)[0] ?? '')
    .reduce((a, b) => (a.length < b.length ? b : a), '')
  return { start, likePatterns: patterns.map(toLikePattern) }
}

/**
 * SQL: whether a column with a name matches the patterns of `nameRange`, and comes after the name `$2`. `$3` is `start`, and
 * `$4` are `likePatterns`.
 */
export const isInNameRange = (name: string) =>
  `${name} collate "C" > $2 and ${name} collate "C" >= $3 and ${name} collate "C" < $3 || '{'
   and ${name} like all ($4::text[])`

/** Returns a pattern with `*` for SQL's `like`. */
export function toLikePattern(pattern: string): string {
  return pattern.replace(/[\\%_]/g, '\\$&').replaceAll('*', '%')
}
