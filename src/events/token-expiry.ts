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
