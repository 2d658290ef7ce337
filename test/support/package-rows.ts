import type { Queryable } from '../../src/database/database.ts'

type Id = { id: string }

/** Adds packages without versions to a repository. */
export async function addPackages(db: Queryable, repository: Id, names: string[]): Promise<void> {
  await db.query('insert into package (repository_id, name) select $1, unnest($2::text[])', [
    repository.id,
    names,
  ])
}

/** Which versions of a repository: all of them, of one package, or of one number. */
export interface VersionFilter {
  name?: string
  version?: string
}

/** Marks versions of a repository as deleted, without the work that a deletion starts. */
export async function markDeleted(
  db: Queryable,
  repository: Id,
  { name, version }: VersionFilter = {},
): Promise<void> {
  await db.query(
    `update package_version v set deleted_at = now() from package p
      where p.id = v.package_id and p.repository_id = $1 and ($2::text is null or p.name = $2)
        and ($3::text is null or v.version = $3)`,
    [repository.id, name ?? null, version ?? null],
  )
}
