import type { Queryable } from '../../src/database/database.ts'

/** Counts the packages of all lock files: those whose row contains a text. */
export async function countLockedPackages(db: Queryable, text = ''): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from locked_package p where strpos(p::text, $1) > 0 or $1 = ''`,
    [text],
  )
  return rows[0]?.count ?? 0
}

/** Adds versions of a package that lock files of others have named. */
export async function addLockedVersions(db: Queryable, name: string, count: number): Promise<void> {
  await db.query(
    `insert into locked_package (digest, name, version, normalized, entry)
     select sha256(convert_to($1 || i, 'UTF8')), $1, '9.0.' || i, '9.0.' || i || '.0', '{}' from generate_series(1, $2::integer) i`,
    [name, count],
  )
}

/** Makes the locked packages older: no lock has named them for some days. */
export async function ageLockedPackages(db: Queryable, days: number): Promise<void> {
  await db.query('update locked_package set used_on = current_date - $1::integer', [days])
}

/** A project of a group, with an empty lock file. */
export async function aProject(db: Queryable, group: { id: string }, name: string): Promise<void> {
  await db.query(
    `with made as (insert into project (group_id, name) values ($1, $2) returning id)
     insert into project_lock (project_id, environment, packages, dev_packages)
     select id, 'production', '{}', '{}' from made`,
    [group.id, name],
  )
}

/** Adds environments with empty lock files to a project, until it has this number of them. */
export async function fillEnvironments(db: Queryable, project: { id: string }, count: number): Promise<void> {
  await db.query(
    `insert into project_lock (project_id, environment, packages, dev_packages)
     select $1, 'filled-' || i, '{}', '{}'
       from generate_series((select count(*)::integer + 1 from project_lock where project_id = $1), $2::integer) i`,
    [project.id, count],
  )
}

/** Adds an open finding of a project. */
export async function addFinding(
  db: Queryable,
  group: { id: string },
  about: { project: string; environment: string; packageName: string; version: string; reason: string },
): Promise<void> {
  await db.query(
    `insert into project_finding (project_id, environment, package_name, version, reason)
     select id, $3, $4, $5, $6 from project where group_id = $1 and name = $2`,
    [group.id, about.project, about.environment, about.packageName, about.version, about.reason],
  )
}
