import { type Queryable, sweepOf } from '../database/database.ts'
import { networkOf } from '../domain/client-ip.ts'
import { describePrincipal, type Principal } from '../domain/principal.ts'

/** The actions that somebody without a session can repeat. The trigger function refuse_event_change has them too. */
export type CountedAction =
  | 'sign-in-failed'
  | 'sign-in-locked'
  | 'second-factor-failed'
  | 'password-reset-requested'

/**
 * Counts an event of an account, or of a name that no account has: then the account is null. All with the same action and
 * `kind` from one network in an hour have one event, with the number of `attempts` in its details.
 */
export async function countEvent(
  db: Queryable,
  by: Principal,
  {
    action,
    accountId,
    kind = '',
    network = networkOf(by.ip ?? undefined),
  }: { action: CountedAction; accountId: string | null; kind?: string; network?: string },
): Promise<void> {
  await db.query(
    'select note_counted_event(the_action => $1, the_account_id => $2, the_network => $3, the_kind => $4, actor => $5)',
    [action, accountId, network, kind, describePrincipal(by)],
  )
}

/** Deletes at most `limit` counts whose hour has ended. Their events stay. Returns how many. */
export const deleteFormerCounts = sweepOf(
  'counted_event',
  'action, account_id, network, kind, hour',
  `hour < now() - interval '2 hours'`,
)
