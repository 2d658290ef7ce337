/** When a personal access token expires. */
export type Expiry = { inDays: number } | { at: Date } | 'never'

/** Returns the parameters of an expiration: a time, a number of days from now, or neither. */
export function expiryValues(expiry: Expiry): [Date | null, number | null] {
  if (expiry === 'never') return [null, null]
  return 'at' in expiry ? [expiry.at, null] : [null, expiry.inDays]
}
