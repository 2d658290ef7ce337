/** When a personal access token expires. */
export type Expiry = { inDays: number } | { at: Date } | 'never'

/**
 * SQL that tells whether an event about the expiry of a token `t` is due: 7 days before, and again one day before. Each is due
 * once, and not at all if the token was created after its time.
 */
export const isExpiryDue = `(t.revoked_at is null and t.expires_at between now() and now() + interval '7 days'
  and greatest(t.created_at, t.expiry_noted_at)
      < t.expires_at - case when t.expires_at < now() + interval '1 day' then interval '1 day' else interval '7 days' end)`

/** Returns the details of such an event. */
export function expiryDetails({ name, expiresAt }: { name: string; expiresAt: Date }) {
  return { name, expires_at: expiresAt.toISOString() }
}

/** Returns the parameters of an expiration: a time, a number of days from now, or neither. */
export function expiryValues(expiry: Expiry): [Date | null, number | null] {
  if (expiry === 'never') return [null, null]
  return 'at' in expiry ? [expiry.at, null] : [null, expiry.inDays]
}
