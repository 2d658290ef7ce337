import { type Queryable, sweepOf } from '../../database/database.ts'
import { hashSecret, makeOpaqueId } from '../../domain/secrets.ts'
import type { Credentials } from '../accounts.ts'

/** The maximum time between the password and the second factor. */
const lifetimeSeconds = 600

/**
 * Stores that a browser sent the right password and must send a second factor. Returns the id, which only that browser
 * stores. Earlier steps of the account stay valid, because each is bound to its browser.
 */
export async function insertSignInStep(
  db: Queryable,
  { accountId, passwordHash }: Credentials,
): Promise<string> {
  const id = makeOpaqueId()
  await db.query(
    `with expired as (delete from sign_in_step where account_id = $2 and expires_at < now())
     insert into sign_in_step (id_hash, account_id, credential_hash, expires_at)
     values ($1, $2, sha256(convert_to($3, 'UTF8')), now() + make_interval(secs => $4))`,
    [hashSecret(id), accountId, passwordHash, lifetimeSeconds],
  )
  return id
}

/** A sign-in that waits for its second factor. */
export interface SignInStep extends Credentials {
  username: string
}

const liveStep = `select s.account_id as "accountId", a.password_hash as "passwordHash", a.username
       from sign_in_step s
       join account a on a.id = s.account_id and a.disabled_at is null
        and s.credential_hash = sha256(convert_to(a.password_hash, 'UTF8'))
      where s.id_hash = $1 and s.expires_at > now()`

/**
 * Finds the sign-in that waits in this browser. Null when there is none, when it has expired, when the account was
 * disabled, and when its password was changed.
 */
export async function findSignInStep(db: Queryable, id: string): Promise<SignInStep | null> {
  const { rows } = await db.query<SignInStep>(liveStep, [hashSecret(id)])
  return rows[0] ?? null
}

/** Ends a step. Of racing requests, only one gets true. */
export async function deleteSignInStep(db: Queryable, id: string): Promise<boolean> {
  const { rowCount } = await db.query('delete from sign_in_step where id_hash = $1', [hashSecret(id)])
  return rowCount === 1
}

/** Deletes at most `limit` expired steps. Returns how many it deleted. */
export const deleteExpiredSteps = sweepOf('sign_in_step', 'id_hash')
