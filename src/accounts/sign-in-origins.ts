import type { Queryable } from '../database/database.ts'
import type { SecretHash } from '../domain/secrets.ts'

/** How long a browser or a network counts as known after its last sign-in. */
export const originLifetimeSeconds = 180 * 86_400
/** The maximum number of origins of an account. The most recent ones are kept. */
const maxOrigins = 50

/** The origin of a sign-in: browser and network. */
export interface SignInOrigin {
  network: string
  networkHash: SecretHash
  /** SHA-256 of the browser's device cookie; null when it has none. */
  deviceHash: SecretHash | null
}

/** Returns whether the account has signed in from this browser, and from this network. */
export async function findKnownOrigin(
  db: Queryable,
  accountId: string,
  { networkHash, deviceHash }: SignInOrigin,
): Promise<{ isKnownNetwork: boolean; isKnownDevice: boolean }> {
  const { rows } = await db.query<{ isKnownNetwork: boolean; isKnownDevice: boolean }>({
    name: 'find-known-origin',
    text: `select coalesce(bool_or(origin_hash = $2), false) as "isKnownNetwork",
                  coalesce(bool_or(origin_hash = $3), false) as "isKnownDevice"
             from sign_in_origin
            where account_id = $1 and origin_hash in ($2, $3)
              and last_used_at > now() - make_interval(secs => $4)`,
    values: [accountId, networkHash, deviceHash, originLifetimeSeconds],
  })
  return rows[0] ?? { isKnownNetwork: false, isKnownDevice: false }
}

/** Stores the browser and the network of a sign-in. Deletes the account's oldest ones. */
export async function rememberOrigin(
  db: Queryable,
  accountId: string,
  hashes: readonly [networkHash: SecretHash, deviceHash: SecretHash],
): Promise<void> {
  await db.query(
    `with forgotten as (
       delete from sign_in_origin
        where account_id = $1 and origin_hash in (
          select origin_hash from sign_in_origin
           where account_id = $1 and origin_hash <> all($2)
           order by last_used_at desc offset $3
             for update skip locked)
     )
     insert into sign_in_origin (account_id, origin_hash)
     select $1, origin_hash from unnest($2::bytea[]) as origin_hash order by origin_hash
         on conflict (account_id, origin_hash) do update set last_used_at = now()`,
    [accountId, hashes, maxOrigins - hashes.length],
  )
}

/** Deletes all known browsers and networks of the account, for example after a change of the password. */
export async function forgetOrigins(db: Queryable, accountId: string): Promise<void> {
  await db.query('delete from sign_in_origin where account_id = $1', [accountId])
}
