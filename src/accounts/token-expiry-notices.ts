import type pg from 'pg'
import { transaction } from '../database/database.ts'
import { background } from '../domain/principal.ts'
import { insertEvents } from '../events/events.ts'
import { expiryDetails, isExpiryDue } from '../events/token-expiry.ts'
import { noteExpiringDeployTokens } from '../groups/deploy-tokens.ts'
import type { Job } from '../jobs/job.ts'

/** How many tokens one transaction takes at most. */
const tokensPerTransaction = 500

/**
 * Writes an event for each personal access token and deploy token that expires in 7 days, and again in one day.
 */
export const noteExpiringTokensJob: Job = {
  name: 'note-expiring-tokens',
  everySeconds: 3600,
  async run({ db }, _data, signal) {
    for (const note of [noteExpiringPersonalTokens, noteExpiringDeployTokens]) {
      for (let noted = tokensPerTransaction; noted === tokensPerTransaction; ) {
        signal.throwIfAborted()
        noted = await transaction(db, (tx) => note(tx, tokensPerTransaction))
      }
    }
  },
}

/** Notes at most `limit` tokens that expire soon, and returns how many. Tokens of disabled accounts are left out. */
async function noteExpiringPersonalTokens(tx: pg.PoolClient, limit: number): Promise<number> {
  const { rows } = await tx.query<{ id: string; accountId: string; name: string; expiresAt: Date }>(
    `update personal_token t set expiry_noted_at = now()
      where id in (
        select t.id from personal_token t join account a on a.id = t.account_id
         where ${isExpiryDue} and a.disabled_at is null
         limit $1 for update of t skip locked)
  returning t.id, t.account_id as "accountId", t.name, t.expires_at as "expiresAt"`,
    [limit],
  )
  const events = rows.map(({ id, accountId, ...token }) => ({
    action: 'token-expiring' as const,
    accountId,
    details: { ...expiryDetails(token), token: Number(id) },
  }))
  await insertEvents(tx, background, events)
  return rows.length
}
