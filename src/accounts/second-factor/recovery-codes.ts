import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { Principal } from '../../domain/principal.ts'
import { hashSecret } from '../../domain/secrets.ts'
import { insertEvent } from '../../events/events.ts'
import { lockAccount } from '../accounts.ts'

/** How many recovery codes a set has. */
const codesInSet = 10
/** The alphabet has no letters and digits that look alike. */
const alphabet = 'abcdefghjkmnpqrstuvwxyz23456789'

/** Replaces the recovery codes of an account by a new set, and returns it: `abcd-efgh-jkmn-pqrs`. */
export async function renewRecoveryCodes(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
): Promise<string[]> {
  const codes = Array.from({ length: codesInSet }, makeRecoveryCode)
  // Lock the account: otherwise two requests at once could both store a set.
  await lockAccount(tx, accountId)
  await tx.query('delete from recovery_code where account_id = $1', [accountId])
  await tx.query('insert into recovery_code (account_id, code_hash) select $1, unnest($2::bytea[])', [
    accountId,
    codes.map(hashCode),
  ])
  await insertEvent(tx, by, { action: 'recovery-codes-created', accountId })
  return codes
}

/** Uses up a recovery code, which works once. False for an unknown one. */
export async function spendRecoveryCode(
  tx: pg.PoolClient,
  by: Principal,
  accountId: string,
  code: string,
): Promise<boolean> {
  const { rowCount } = await tx.query('delete from recovery_code where account_id = $1 and code_hash = $2', [
    accountId,
    hashCode(code),
  ])
  if (rowCount !== 1) return false
  const left = await countRecoveryCodes(tx, accountId)
  await insertEvent(tx, by, { action: 'recovery-code-used', accountId, details: { left } })
  return true
}

/** Counts the unused recovery codes of an account. */
export async function countRecoveryCodes(db: Queryable, accountId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from recovery_code where account_id = $1',
    [accountId],
  )
  return rows[0]?.count ?? 0
}

/** Deletes the recovery codes of an account. */
export async function deleteRecoveryCodes(db: Queryable, accountId: string): Promise<void> {
  await db.query('delete from recovery_code where account_id = $1', [accountId])
}

/** Returns a code of 16 letters and digits. It has 79 random bits, so a fast hash is enough, as for tokens. */
function makeRecoveryCode(): string {
  const letters: string[] = []
  while (letters.length < 16) {
    for (const byte of randomBytes(16)) {
      // 248 is a multiple of 31: every letter is equally likely.
      if (byte < 248 && letters.length < 16) letters.push(alphabet.charAt(byte % 31))
    }
  }
  return letters.join('').replace(/.{4}(?=.)/g, '$&-')
}

/** Ignores spaces, hyphens and capitals, because people type codes in different ways. */
function hashCode(code: string) {
  return hashSecret(`recovery code ${code.toLowerCase().replace(/[^a-z0-9]/g, '')}`)
}
