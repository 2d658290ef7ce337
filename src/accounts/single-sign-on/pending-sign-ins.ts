import { type Queryable, surplusOf, sweepOf } from '../../database/database.ts'
import { hashSecret, makeOpaqueId, type SecretHash } from '../../domain/secrets.ts'
import type { ProvenPerson } from './person.ts'
import type { SignInSecrets } from './providers.ts'

/** The maximum time that a person may spend at the provider. */
export const signInLifetimeSeconds = 600
/** The maximum number of open sign-ins of a network, because anyone can start them. The oldest are deleted first. */
const maxSignInsPerNetwork = 1000

/** A sign-in that has not come back from the provider yet. */
export interface ProviderSignIn {
  provider: string
  /** The page to return to, as `signPage` returned it; empty for the home page. */
  returnId: string
  /** The signed-in account that is linked or confirmed. Null for a sign-in. */
  accountId: string | null
  /** Whether the person of the account confirms a sensitive action. */
  isConfirmation: boolean
}

/** Starts a sign-in for one browser, which its cookie identifies, and returns the secrets. */
export async function insertSignIn(
  db: Queryable,
  browser: string,
  network: string,
  { provider, returnId, accountId, isConfirmation }: ProviderSignIn,
): Promise<SignInSecrets> {
  const secrets = { state: makeOpaqueId(), nonce: makeOpaqueId(), codeVerifier: makeOpaqueId() }
  await db.query(
    `with ${surplusOf('provider_sign_in', 'state_hash', 'network = $8', maxSignInsPerNetwork - 1)}
     insert into provider_sign_in
            (state_hash, browser_hash, provider, nonce, code_verifier, return_id, account_id, network, expires_at,
             is_confirmation)
     values ($1, $2, $3, $4, $5, $6, $7, $8, now() + make_interval(secs => $9), $10)`,
    [
      hashSecret(secrets.state),
      hashSecret(browser),
      provider,
      secrets.nonce,
      secrets.codeVerifier,
      returnId,
      accountId,
      network,
      signInLifetimeSeconds,
      isConfirmation,
    ],
  )
  return secrets
}

/**
 * Returns a sign-in of this browser at this provider, and deletes it. `ageSeconds` is the time since it began. Null when
 * it is unknown, expired or was used.
 */
export async function takeSignIn(
  db: Queryable,
  browser: string,
  provider: string,
  state: string,
): Promise<(ProviderSignIn & SignInSecrets & { ageSeconds: number }) | null> {
  const { rows } = await db.query<Omit<ProviderSignIn & SignInSecrets, 'state'> & { ageSeconds: number }>(
    `delete from provider_sign_in
      where state_hash = $1 and browser_hash = $2 and provider = $3 and expires_at > now()
     returning provider, nonce, code_verifier as "codeVerifier", return_id as "returnId",
               account_id as "accountId", is_confirmation as "isConfirmation",
               $4 - extract(epoch from expires_at - now())::float8 as "ageSeconds"`,
    [hashSecret(state), hashSecret(browser), provider, signInLifetimeSeconds],
  )
  return rows[0] ? { ...rows[0], state } : null
}

/** An identified person who must choose: link the account that may be theirs, or create a new one. */
export interface ProofInWaiting {
  provider: string
  person: ProvenPerson
  /** The account with the same email or name. */
  account: { id: string; username: string }
  returnId: string
}

/** Stores an identified person for one browser, and returns the id of the choice. */
export async function insertProof(
  db: Queryable,
  browser: string,
  { provider, person, account, returnId }: ProofInWaiting,
): Promise<string> {
  const id = makeOpaqueId()
  await db.query(
    `insert into proven_identity (id_hash, browser_hash, provider, person, account_id, return_id, expires_at)
     values ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7))`,
    [
      hashSecret(id),
      hashSecret(browser),
      provider,
      JSON.stringify(person),
      account.id,
      returnId,
      signInLifetimeSeconds,
    ],
  )
  return id
}

/** Returns a proof of this browser. Null when it is unknown, expired or used. */
export async function findProof(
  db: Queryable,
  browser: string,
  idHash: SecretHash,
): Promise<ProofInWaiting | null> {
  const { rows } = await db.query<ProofInWaiting>(
    `select p.provider, p.person, p.return_id as "returnId",
            json_build_object('id', a.id::text, 'username', a.username) as account
       from proven_identity p join account a on a.id = p.account_id
      where p.id_hash = $1 and p.browser_hash = $2 and p.expires_at > now()`,
    [idHash, hashSecret(browser)],
  )
  return rows[0] ?? null
}

/** Lets a proof live as long as a second step that begins now. */
export async function renewProof(db: Queryable, idHash: SecretHash): Promise<void> {
  await db.query(
    'update proven_identity set expires_at = now() + make_interval(secs => $2) where id_hash = $1',
    [idHash, signInLifetimeSeconds],
  )
}

/** Deletes a proof. False when another request has used it. */
export async function deleteProof(db: Queryable, idHash: SecretHash): Promise<boolean> {
  const { rowCount } = await db.query('delete from proven_identity where id_hash = $1', [idHash])
  return rowCount === 1
}

/** Deletes at most `limit` expired sign-ins. Returns how many it deleted. */
export const deleteExpiredSignIns = sweepOf('provider_sign_in', 'state_hash')

/** Deletes at most `limit` expired proofs. Returns how many it deleted. */
export const deleteExpiredProofs = sweepOf('proven_identity', 'id_hash')
