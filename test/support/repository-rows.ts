import type { Queryable } from '../../src/database/database.ts'

/** Lets the deletions of all deleted repositories be days ago. */
export async function setDeletionDays(db: Queryable, days: number): Promise<void> {
  await db.query(
    'update repository set deleted_at = now() - make_interval(days => $1) where deleted_at is not null',
    [days],
  )
}

/** Adds repositories repo001, repo002 and so on to a group. */
export async function addNumberedRepositories(
  db: Queryable,
  group: { id: string },
  count: number,
): Promise<void> {
  await db.query(
    `insert into repository (group_id, name, description)
     select $1, 'repo' || to_char(i, 'fm000'), 'Number ' || i from generate_series(1, $2::int) i`,
    [group.id, count],
  )
}
