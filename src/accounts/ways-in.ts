import type pg from 'pg'
import type { Config } from '../config.ts'
import { lockAccount } from './accounts.ts'
import { mayUsePassword } from './passwords.ts'
import { allowsPasskeys } from './second-factor/passkey-ceremony.ts'
import { listPasskeys } from './second-factor/passkeys.ts'
import { listIdentities } from './single-sign-on/identities.ts'

/** The ways to sign in that this server offers. */
export type OfferedWays = Pick<Config, 'providers' | 'passwordSignIn' | 'baseUrl'>

/**
 * Returns whether an account can still sign in after the removal of an identity or of a passkey. It locks the account,
 * so that of two concurrent removals one sees the other. A second factor alone does not sign anybody in: neither an
 * authenticator app, nor a passkey that cannot replace the password. It may be unknown whether a passkey can. Then its
 * own removal is refused like that of a way in, but it is not enough to allow the removal of another one.
 */
export async function keepsWayIn(
  tx: pg.PoolClient,
  accountId: string,
  offered: OfferedWays,
  removed: { issuer: string } | { passkeyId: string },
): Promise<boolean> {
  const locked = await lockAccount(tx, accountId)
  if (locked?.hasPassword && mayUsePassword(offered, locked.isAdmin)) return true
  const identities = await listIdentities(tx, accountId)
  const hasProvider = identities.some(
    ({ issuer }) =>
      !('issuer' in removed && removed.issuer === issuer) &&
      offered.providers.some((provider) => provider.issuer === issuer),
  )
  if (hasProvider) return true
  const removedPasskey = (id: string) => 'passkeyId' in removed && removed.passkeyId === id
  const passkeys = await listPasskeys(tx, accountId)
  if (passkeys.some(({ id, canSignIn }) => removedPasskey(id) && canSignIn === false)) return true
  // PASSWORD_SIGN_IN also applies to a passkey that replaces the password.
  if (!locked || !mayUsePassword(offered, locked.isAdmin) || !allowsPasskeys(offered)) return false
  return passkeys.some(({ id, canSignIn }) => !removedPasskey(id) && canSignIn === true)
}
