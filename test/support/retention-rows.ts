import type { Queryable } from '../../src/database/database.ts'

type Id = { id: string }

/** Lets the time come at which the retention rules of a repository are applied. */
export async function makeRetentionDue(db: Queryable, repository: Id): Promise<void> {
  await db.query('update repository_retention set due_at = now() where repository_id = $1', [repository.id])
}

/** Lets the versions of a repository be deleted days ago, with the rule that has deleted some of them. */
export async function ageDeletions(db: Queryable, repository: Id, days: number): Promise<void> {
  await db.query(
    `update package_version v
        set deleted_at = v.deleted_at - make_interval(days => $2), retired_at = v.retired_at - make_interval(days => $2)
       from package p where p.id = v.package_id and p.repository_id = $1 and v.deleted_at is not null`,
    [repository.id, days],
  )
}

/** The versions of a repository that are deleted or purged, in their order. */
export async function goneVersions(db: Queryable, repository: Id): Promise<Record<string, string>> {
  const { rows } = await db.query<{ version: string; state: string }>(
    `select v.version, case when v.purged_at is null then 'deleted' else 'purged' end as state
       from package_version v join package p on p.id = v.package_id
      where p.repository_id = $1 and v.deleted_at is not null order by v.id`,
    [repository.id],
  )
  return Object.fromEntries(rows.map(({ version, state }) => [version, state]))
}
