import type { Severity } from '../tables/package-warnings.ts'

// The weights and formulas of CVSS 3.1, section 7. Those of 3.0 differ only in the rounding.
const weights: Record<string, Record<string, number>> = {
  AV: { N: 0.85, A: 0.62, L: 0.55, P: 0.2 },
  AC: { L: 0.77, H: 0.44 },
  UI: { N: 0.85, R: 0.62 },
  C: { H: 0.56, L: 0.22, N: 0 },
  I: { H: 0.56, L: 0.22, N: 0 },
  A: { H: 0.56, L: 0.22, N: 0 },
}
const privileges = { U: { N: 0.85, L: 0.62, H: 0.27 }, C: { N: 0.85, L: 0.68, H: 0.5 } } as const

/** Returns the severity of the base score of a CVSS 3 vector. Null when it is none, and when its score is 0. */
export function cvssSeverity(vector: string): Severity | null {
  if (!/^CVSS:3\.[01]\//.test(vector)) return null
  const metrics = new Map(
    vector
      .split('/')
      .slice(1)
      .map((part) => part.split(':') as [string, string]),
  )
  const weight = (metric: string) => weights[metric]?.[metrics.get(metric) ?? ''] ?? Number.NaN
  const scope = metrics.get('S') === 'C' ? 'C' : 'U'
  const required = (privileges[scope] as Record<string, number>)[metrics.get('PR') ?? ''] ?? Number.NaN
  const exposure = 1 - (1 - weight('C')) * (1 - weight('I')) * (1 - weight('A'))
  const impact = scope === 'U' ? 6.42 * exposure : 7.52 * (exposure - 0.029) - 3.25 * (exposure - 0.02) ** 15
  const exploitability = 8.22 * weight('AV') * weight('AC') * required * weight('UI')
  const sum = impact <= 0 ? 0 : (scope === 'C' ? 1.08 : 1) * (impact + exploitability)
  // Rounded up to one digit, as integers, because of binary fractions.
  const score = Math.ceil(Math.round(Math.min(sum, 10) * 100_000) / 10_000) / 10
  if (!(score > 0)) return null
  return score >= 9 ? 'critical' : score >= 7 ? 'high' : score >= 4 ? 'medium' : 'low'
}
