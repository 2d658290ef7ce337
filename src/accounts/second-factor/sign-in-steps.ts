import { type Queryable, sweepOf } from '../../database/database.ts'
import { hashSecret, makeOpaqueId, type SecretHash } from '../../domain/secrets.ts'
import type { Credentials } from '../accounts.ts'

/** The maximum time between the password and the second factor. */
const lifetimeSeconds = 600

/**
 * Stores that a browser sent the right password and must send a second factor. Returns the id, which only that browser
 * stores. Earlier steps of the account stay valid, because each is bound to its browser. With a proof, the second factor
 * links the person of a provider.
 */
export async function insertSignInStep(
  db: Queryable,
  { accountId, passwordHash }: Credentials,
  proofHash: SecretHash | null,
): Promise<string> {
  const id = makeOpaqueId()
  await db.query(
    `with expired as (delete from sign_in_step where account_id = $2 and expires_at < now())
     insert into sign_in_step (id_hash, account_id, credential_hash, expires_at, proof_hash)
     values ($1, $2, ${credentialHash('$3', '$5::bytea')}, now() + make_interval(secs => $4), $5)`,
    [hashSecret(id), accountId, passwordHash, lifetimeSeconds, proofHash],
  )
  return id
}

/**
 * SQL: the hash of the checked password, also of an account without one. The step of a link has another one than that of a
 * sign-in, so neither continues as the other.
 */
function credentialHash(passwordHash: string, proofHash: string): string {
  return `sha256(convert_to(case when ${proofHash} is null then '' else 'link ' end || coalesce(${passwordHash}, ''), 'UTF8'))`
}

/** A sign-in that waits for its second factor. */
export interface SignInStep extends Credentials {
  username: string
  /** The person of a provider that the second factor links. Null for a sign-in. */
  proofHash: SecretHash | null
}

const liveStep = `select s.account_id as "accountId", a.password_hash as "passwordHash", a.username,
            s.proof_hash as "proofHash"
       from sign_in_step s
       join account a on a.id = s.account_id and a.disabled_at is null
        and s.credential_hash = ${credentialHash('a.password_hash', 's.proof_hash')}
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
