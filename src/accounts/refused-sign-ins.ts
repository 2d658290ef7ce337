import type { Queryable } from '../database/database.ts'
import type { Principal } from '../domain/principal.ts'
import type { CountedAction } from '../events/counted-events.ts'
import { hasLogin, normalizeLogin } from './accounts.ts'

/** SQL that finds the account with a username or email, which is the first parameter of the statement. */
const accountOfLogin = `(select id from account where ${hasLogin} order by username = $1 desc limit 1)`

/**
 * Counts a failed or locked sign-in with this username or email: see `countEvent`. An unknown name is not stored, because
 * it may be a mistyped password: these have one event for each network and hour together.
 */
export async function countRefusedSignIn(
  db: Queryable,
  by: Principal,
  action: Extract<CountedAction, 'sign-in-failed' | 'sign-in-locked'>,
  login: string,
  network: string,
): Promise<void> {
  await db.query(
    `select note_counted_event(the_action => $2, the_account_id => ${accountOfLogin}, the_network => $3, the_kind => '',
                               actor => $4)`,
    [normalizeLogin(login), action, network, by],
  )
}
