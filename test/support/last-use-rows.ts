import type { Queryable } from '../../src/database/database.ts'

/** What has a last use that many requests write together. */
export type UsedTable = 'account_authorization' | 'personal_token'

/** When a token or an authorization was last used. */
export async function lastUseOf(db: Queryable, table: UsedTable, id: string): Promise<Date | null> {
  const { rows } = await db.query<{ at: Date | null }>(
    `select last_used_at as at from ${table} where id = $1`,
    [id],
  )
  return rows[0]?.at ?? null
}

/** Forgets the last use of an authorization. */
export async function forgetUse(db: Queryable, authorizationId: string): Promise<void> {
  await db.query('update account_authorization set last_used_at = null where id = $1', [authorizationId])
}

/** Lets seconds pass since the personal access tokens were used. */
export async function ageUses(db: Queryable, seconds: number): Promise<void> {
  await db.query('update personal_token set last_used_at = last_used_at - make_interval(secs => $1)', [
    seconds,
  ])
}

/** Revokes the tokens with these values. */
export async function revokePersonalTokens(db: Queryable, account: { id: string }): Promise<void> {
  await db.query('update personal_token set revoked_at = now() where account_id = $1', [account.id])
}

/** Revokes the deploy tokens of a group with this name. */
export async function revokeDeployTokens(db: Queryable, group: { id: string }, name: string): Promise<void> {
  await db.query('update deploy_token set revoked_at = now() where group_id = $1 and name = $2', [
    group.id,
    name,
  ])
}

/** Lets it be unknown when the grants of an account were used. */
export async function forgetGrantUses(db: Queryable, account: { id: string }): Promise<void> {
  await db.query('update authorization_grant set last_used_at = null where account_id = $1', [account.id])
}
