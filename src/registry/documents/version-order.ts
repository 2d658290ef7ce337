/** The ranks that PHP's `version_compare` gives to the parts of a normalized version. Numbers have a rank too. */
const ranks: Record<string, string> = { dev: '0', alpha: '1', beta: '2', RC: '3', patch: '6' }
const endRank = '4'
const numberRank = '5'

/**
 * Returns a text that orders normalized versions when compared byte by byte, lower versions first, so that the database
 * can sort by it. All `dev-` versions are equal and below every release; their date orders them.
 */
export function versionSortKey(normalized: string): string {
  if (normalized.startsWith('dev-')) return ''
  const parts = normalized.match(/\d+|[a-z]+/gi) ?? []
  return parts.map(partKey).join('') + endRank
}

/** Puts the length before a number, so that 9 comes before 10. No version has 1,000 digits. */
function partKey(part: string): string {
  const rank = ranks[part]
  if (rank !== undefined) return rank
  const digits = part.replace(/^0+(?=\d)/, '')
  return `${numberRank}${String(digits.length).padStart(3, '0')}${digits}`
}
