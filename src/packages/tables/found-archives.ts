import type { Queryable } from '../../database/database.ts'
import type { ListPart } from '../../domain/paging.ts'
import {
  accountReader,
  isVisible,
  type RepositoryReader,
  readerValues,
} from '../../groups/accessible-repositories.ts'
import { stateOfVersion, type VersionState } from './version-states.ts'

/** A version that has, or had, the archive that was searched. */
export interface FoundArchive {
  /** The place in the list. */
  key: string
  /** The path, such as `acme/php`. */
  repository: string
  packageName: string
  version: string
  /** `mirrored` is a version from an upstream. */
  state: VersionState | 'mirrored'
  size: number
  /** When it was published, or fetched from the upstream. */
  storedAt: Date
}

/** Returns the SHA-256 of a text, in lower-case hex. Null when the text is none. */
export function readSha256(text: string): string | null {
  return /^[0-9a-f]{64}$/i.test(text) ? text.toLowerCase() : null
}

/**
 * Lists the versions with an archive in all repositories from which the reader may pull: published ones first, in the
 * order of their publication, and then those from upstreams. The reader `null` is the command line, which finds all.
 * `sha256` is in lower-case hex.
 */
export async function listFoundArchives(
  db: Queryable,
  reader: RepositoryReader | null,
  sha256: string,
  { after, limit }: ListPart,
): Promise<FoundArchive[]> {
  const { rows } = await db.query<FoundArchive>(
    `select u.key, g.name || '/' || r.name as repository, u.package as "packageName", u.version, u.state,
            (select size from archive where sha256 = decode($7, 'hex'))::float8 as size, u.stored_at as "storedAt"
       from (select 'published-' || lpad(v.id::text, 20, '0') as key, p.repository_id, p.name as package, v.version,
                    ${stateOfVersion} as state, v.published_at as stored_at
               from package_version v join package p on p.id = v.package_id
              where v.id in (select id from package_version where sha256 = decode($7, 'hex')
                             union select version_id from former_archive where sha256 = decode($7, 'hex'))
              union all
             select 'upstream-' || lpad(a.id::text, 20, '0'), m.repository_id, m.name, a.version, 'mirrored',
                    coalesce(a.fetched_at, a.first_seen_at)
               from mirrored_archive a join mirrored_package m on m.id = a.package_id
              where a.sha256 = decode($7, 'hex')) u
       join repository r on r.id = u.repository_id
       join repository_group g on g.id = r.group_id
      where ($10 or ${isVisible}) and ($8::text is null or u.key collate "C" > $8)
      order by u.key collate "C" limit $9`,
    [...readerValues(reader ?? accountReader(null)), sha256, after, limit, reader === null],
  )
  return rows
}
