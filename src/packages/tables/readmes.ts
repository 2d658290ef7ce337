import type { Queryable } from '../../database/database.ts'

/** A stored README. `content` is HTML or plain text. It is empty when the version has no README. */
export interface RenderedReadme {
  format: 'html' | 'text' | 'none'
  content: string
}

/** The version of this release's rendering. A higher number makes all stored READMEs outdated. */
const currentRendering = 3

/**
 * Stores the README of a version. Does nothing when a README of this rendering is stored, because versions never
 * change.
 */
export async function saveReadme(
  db: Queryable,
  versionId: string,
  { format, content }: RenderedReadme,
): Promise<void> {
  await db.query({
    name: 'save-readme',
    text: `insert into version_readme as r (version_id, format, content, rendering)
           values ($1, $2, $3, ${currentRendering})
           on conflict (version_id) do update
              set format = excluded.format, content = excluded.content, rendering = excluded.rendering
            where r.rendering < excluded.rendering`,
    values: [versionId, format, content],
  })
}

/** Finds the stored README of a version. Null when none is stored, such as for versions of earlier releases. */
export async function findReadmeOf(
  db: Queryable,
  versionId: string,
): Promise<(RenderedReadme & { isCurrent: boolean }) | null> {
  const { rows } = await db.query<RenderedReadme & { isCurrent: boolean }>({
    name: 'find-readme',
    text: `select format, content, rendering >= ${currentRendering} as "isCurrent"
             from version_readme where version_id = $1`,
    values: [versionId],
  })
  return rows[0] ?? null
}

/** Lists the versions after an id whose README an earlier release rendered. */
export async function listOldReadmes(
  db: Queryable,
  after: string,
  limit: number,
): Promise<{ id: string; sha256: string }[]> {
  const { rows } = await db.query<{ id: string; sha256: string }>(
    `select v.id, encode(v.sha256, 'hex') as sha256
       from version_readme r join package_version v on v.id = r.version_id
      where r.rendering < ${currentRendering} and r.version_id > $1 and v.purged_at is null
      order by r.version_id limit $2`,
    [after, limit],
  )
  return rows
}

/** Removes the READMEs of a package's purged versions. */
export async function deletePurgedReadmes(db: Queryable, packageId: string): Promise<void> {
  await db.query(
    `delete from version_readme r using package_version v
      where v.id = r.version_id and v.package_id = $1 and v.purged_at is not null`,
    [packageId],
  )
}
