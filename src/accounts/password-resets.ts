import type pg from 'pg'
import { type Queryable, sweepOf, transaction } from '../database/database.ts'
import type { Principal } from '../domain/principal.ts'
import { hashSecret, makeOpaqueId } from '../domain/secrets.ts'
import { insertEvent } from '../events/events.ts'
import { replacePassword } from './account-lifecycle.ts'
import { hashPassword } from './passwords.ts'

/** How long a link works. */
export const resetLifetimeSeconds = 3600

/**
 * Creates the token of a link for an account and returns it. The token of an earlier link stops working. Null for a
 * disabled account.
 */
export async function makeResetToken(db: pg.Pool, by: Principal, accountId: string): Promise<string | null> {
  return transaction(
    db,
    async (tx) => {
      const token = await replaceResetToken(tx, accountId)
      if (token !== null) await insertEvent(tx, by, { action: 'reset-link-created', accountId })
      return token
    },
    by,
  )
}

/**
 * Creates a token for an account. An earlier token stops working. Null for a disabled account. The lock makes it wait for a
 * change of the email, which ends all tokens.
 */
export async function replaceResetToken(db: Queryable, accountId: string): Promise<string | null> {
  const token = makeOpaqueId()
  const { rowCount } = await db.query(
    `insert into password_reset (account_id, token_hash, credential_hash, expires_at)
     select id, $2, sha256(convert_to(coalesce(password_hash, ''), 'UTF8')), now() + make_interval(secs => $3)
       from account where id = $1 and disabled_at is null for no key update
         on conflict (account_id) do update
        set token_hash = excluded.token_hash, credential_hash = excluded.credential_hash,
            expires_at = excluded.expires_at`,
    [accountId, hashSecret(token), resetLifetimeSeconds],
  )
  return rowCount === 1 ? token : null
}

/** The URL of a link's page. */
export function resetUrl({ baseUrl }: { baseUrl: string }, token: string): string {
  return `${baseUrl}/password-reset?token=${token}`
}

const accountOfLink = `select a.id, a.username
       from password_reset r join account a on a.id = r.account_id
      where r.token_hash = $1 and r.expires_at > now() and a.disabled_at is null
        and r.credential_hash = sha256(convert_to(coalesce(a.password_hash, ''), 'UTF8'))`

/** Returns the account of a link that still works. Null for other links. */
export async function findResetAccount(
  db: Queryable,
  token: string,
): Promise<{ id: string; username: string } | null> {
  const { rows } = await db.query<{ id: string; username: string }>(accountOfLink, [hashSecret(token)])
  return rows[0] ?? null
}

/**
 * Sets a new password with a link, once, and ends all sessions, or everything. False when the link no longer works.
 */
export async function spendResetToken(
  db: pg.Pool,
  by: Principal,
  token: string,
  password: string,
  endsEverything: boolean,
): Promise<boolean> {
  const passwordHash = await hashPassword(password)
  return transaction(
    db,
    async (tx) => {
      // Lock the account before the link, like a change of the email does.
      const text = `${accountOfLink} for no key update of a`
      const { rows } = await tx.query<{ id: string }>(text, [hashSecret(token)])
      const [account] = rows
      if (!account) return false
      // Of two racing requests only one deletes the row.
      const { rowCount } = await tx.query(
        'delete from password_reset where account_id = $1 and token_hash = $2',
        [account.id, hashSecret(token)],
      )
      if (rowCount !== 1) return false
      await replacePassword(tx, { ...by, accountId: account.id }, account.id, passwordHash, endsEverything)
      return true
    },
    by,
  )
}

/** Deletes at most `limit` expired links. Returns how many it deleted. */
export const deleteExpiredResets = sweepOf('password_reset', 'account_id')
