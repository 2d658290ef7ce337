import type pg from 'pg'
import type { Queryable } from '../../src/database/database.ts'
import { hashSecret } from '../../src/domain/secrets.ts'

/** Renames a view, so that each statement that reads it fails. */
export async function hideView(db: Queryable, view: 'application_credential' | 'live_token'): Promise<void> {
  await db.query(`alter view ${view} rename to elsewhere`)
}

/** Lets the database refuse each new token pair, by the constraint `nothing_fits`. */
export async function refuseNewPairs(db: Queryable): Promise<void> {
  await db.query('alter table token_pair add constraint nothing_fits check (false) not valid')
}

/** Lets the database refuse the refresh of one token, while something is done. */
export async function whileNotRefreshable<T>(
  db: Queryable,
  refreshToken: string,
  work: () => Promise<T>,
): Promise<T> {
  const hash = hashSecret(refreshToken).toString('hex')
  await db.query(
    `alter table token_pair add constraint this_one_fails
       check (refresh_hash <> '\\x${hash}' or superseded_at is null) not valid`,
  )
  const done = await work()
  await db.query('alter table token_pair drop constraint this_one_fails')
  return done
}

/** Ends the connections whose statements wait for a lock. */
export async function breakWaitingConnections(db: pg.Pool): Promise<void> {
  await db.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`,
  )
}

/** Lets the database refuse each statement that deletes more than this many rows of a table. */
export async function refuseLargeDeletions(db: Queryable, table: 'package', most: number): Promise<void> {
  await db.query(
    `create function refuse_many() returns trigger language plpgsql as $$
     begin
       if (select count(*) from gone) > ${most} then raise 'too many at once'; end if;
       return null;
     end $$;
     create trigger refuse_many after delete on ${table}
       referencing old table as gone for each statement execute function refuse_many()`,
  )
}
