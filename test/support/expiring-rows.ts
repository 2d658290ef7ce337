import type { Queryable } from '../../src/database/database.ts'

/** Adds counters of failed attempts whose time has passed. */
export async function addEndedFailures(db: Queryable, count: number): Promise<void> {
  await db.query(
    `insert into auth_failure (key_hash, failures, window_ends_at)
     select sha256(i::text::bytea), 1, now() - interval '1 minute' from generate_series(1, $1::int) as i`,
    [count],
  )
}

/** Adds consent pages of an account that have expired these hours ago. */
export async function addConsentPages(
  db: Queryable,
  account: { id: string },
  application: { id: string },
  hoursAgo: number[],
): Promise<void> {
  await db.query(
    `insert into authorization_request
       (id_hash, account_id, application_id, link, redirect_uri, scopes, resource_scope, expires_at)
     select sha256(hours::text::bytea), $1, $2, '/', 'https://app.example.com/', '{account-profile:r}', 'all',
            now() - hours * interval '1 hour' from unnest($3::int[]) as hours`,
    [account.id, application.id, hoursAgo],
  )
}
