import type { Queryable } from '../../database/database.ts'

/** A README as it is stored and shown: `content` is HTML, plain text, or empty when the version has none. */
export interface RenderedReadme {
  format: 'html' | 'text' | 'none'
  content: string
}

/** Stores the README of a version, unless it has one: versions never change. */
export async function insertReadme(
  db: Queryable,
  versionId: string,
  { format, content }: RenderedReadme,
): Promise<void> {
  await db.query({
    name: 'insert-readme',
    text: `insert into version_readme (version_id, format, content) values ($1, $2, $3)
           on conflict (version_id) do nothing`,
    values: [versionId, format, content],
  })
}

/** Finds the stored README of a version. Null when none is stored, as for versions of earlier releases. */
export async function findReadmeOf(db: Queryable, versionId: string): Promise<RenderedReadme | null> {
  const { rows } = await db.query<RenderedReadme>({
    name: 'find-readme',
    text: 'select format, content from version_readme where version_id = $1',
    values: [versionId],
  })
  return rows[0] ?? null
}

/** Removes the READMEs of a package's purged versions. */
export async function deletePurgedReadmes(db: Queryable, packageId: string): Promise<void> {
  await db.query(
    `delete from version_readme r using package_version v
      where v.id = r.version_id and v.package_id = $1 and v.purged_at is not null`,
    [packageId],
  )
}
