/** The algorithms that sign ID tokens. The first one is the default: every client must know it (OpenID Connect Core §15.1). */
export const tokenAlgorithms = ['RS256', 'ES256'] as const
export type TokenAlgorithm = (typeof tokenAlgorithms)[number]
