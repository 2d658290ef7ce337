import type { Queryable } from '../../src/database/database.ts'

/** Lets all keys of ID tokens be older: since they sign, and since they were retired. */
export async function ageKeys(db: Queryable, by: string): Promise<void> {
  await db.query(
    'update openid_key set activated_at = activated_at - $1::interval, retired_at = retired_at - $1::interval',
    [by],
  )
}

/** Does what a process that rotates the keys commits first: the current keys are retired, and the next ones sign. */
export async function activateNextKeys(db: Queryable): Promise<void> {
  await db.query(
    `update openid_key set retired_at = now(), key_id = null, sealed_secrets = null
      where activated_at is not null and retired_at is null`,
  )
  await db.query('update openid_key set activated_at = now() where activated_at is null')
}

/** Lets the sign-ins of sessions be of a release that did not store their grants. */
export async function forgetGrantsOfSessions(db: Queryable): Promise<void> {
  await db.query('update openid_session set grant_id = null')
}

/** Lets every logout token that waits have one attempt left. */
export async function lastAttempts(db: Queryable): Promise<void> {
  await db.query('update openid_logout set attempts = 9')
}

/** A logout token of an application that no attempt has delivered. */
export async function aLogoutFailure(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query(
    `insert into openid_logout_failure (application_id, failure, failed_at, lost_at)
     values ($1, 'portal.example.com responded with status 503', now(), now())`,
    [id],
  )
}
