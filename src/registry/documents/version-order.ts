/** Ranks of what may follow in a normalised version, as PHP's `version_compare` has them; a number stands among them. */
const ranks: Record<string, string> = { dev: '0', alpha: '1', beta: '2', RC: '3', patch: '6' }
const endRank = '4'
const numberRank = '5'

/**
 * A text that orders normalised versions when compared byte by byte, lower versions first, so that the database can:
 * `compareNormalized` written as a key. All `dev-` versions are equal, below every release; their date orders them.
 */
export function versionSortKey(normalized: string): string {
  if (normalized.startsWith('dev-')) return ''
  const parts = normalized.match(/\d+|[a-z]+/gi) ?? []
  return parts.map(partKey).join('') + endRank
}

/** A number is led by its length, so that 9 comes before 10; no version has 1,000 digits. */
function partKey(part: string): string {
  const rank = ranks[part]
  if (rank !== undefined) return rank
  const digits = part.replace(/^0+(?=\d)/, '')
  return `${numberRank}${String(digits.length).padStart(3, '0')}${digits}`
}
