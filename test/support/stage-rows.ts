import type pg from 'pg'
import { transaction } from '../../src/database/database.ts'
import type { ReleaseRule } from '../../src/domain/permissions.ts'
import { operator, type Principal } from '../../src/domain/principal.ts'
import { hashSecret, makeOpaqueId } from '../../src/domain/secrets.ts'
import { changeRepository } from '../../src/groups/repositories.ts'
import { expireStages } from '../../src/packages/stages/expire.ts'
import type { TestApp } from './app.ts'

/** Ends the time of a stage. The job has not run yet. */
export async function endStageTime(db: pg.Pool, id: string): Promise<void> {
  await db.query(`update staged_version set expires_at = now() where id = $1`, [id])
}

/** Does the work of the job that expires stages. Returns how many expired. */
export async function runExpiry(db: pg.Pool): Promise<number> {
  return transaction(db, (tx) => expireStages(tx, 100))
}

/** The state of a stage in the database. */
export async function storedStateOf(db: pg.Pool, id: string): Promise<string | undefined> {
  const { rows } = await db.query<{ state: string }>('select state from staged_version where id = $1', [id])
  return rows[0]?.state
}

/** Changes how versions of a repository are released. */
export async function setReleaseRule(
  { db }: Pick<TestApp, 'db'>,
  { id }: { id: string },
  { release = 'reviewed' as ReleaseRule, twoPeople = false } = {},
): Promise<void> {
  await changeRepository(db, id, { release, twoPeople })
}

/** A person at a browser who has just given a second factor. */
export async function atBrowser({ db }: Pick<TestApp, 'db'>, { id }: { id: string }): Promise<Principal> {
  const session = hashSecret(makeOpaqueId())
  await db.query(
    `insert into session (id_hash, account_id, network, expires_at, factor_proved_at)
     values ($1, $2, '192.0.2.0/24', now() + interval '1 hour', now())`,
    [session, id],
  )
  return { ...operator, accountId: id, via: 'browser', session }
}
