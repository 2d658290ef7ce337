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

function toLikePattern(pattern: string): string {
  return pattern.replace(/[\\%_]/g, '\\$&').replaceAll('*', '%')
}
