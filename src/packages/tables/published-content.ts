import type { Queryable } from '../../database/database.ts'
import { formatCount } from '../../domain/formats.ts'

/** What a repository offers to everybody who may pull from it. */
export interface PublishedContent {
  packages: number
  versions: number
  readmes: number
  archives: number
  /** The number of upstreams whose packages install through the repository. */
  upstreams: number
  /** Whether there are more versions than are counted. The numbers are those of the counted ones. */
  hasMore: boolean
}

/** A count of more versions would take seconds. */
const maxCountedVersions = 10_000

/** Counts what a repository offers, without deleted and quarantined versions. */
export async function countPublished(db: Queryable, repositoryId: string): Promise<PublishedContent> {
  const { rows } = await db.query<PublishedContent>(
    `with counted as materialized (
       select v.id, v.package_id, v.sha256
         from package p join package_version v on v.package_id = p.id and v.is_listed
        where p.repository_id = $1
        limit ${maxCountedVersions + 1}
     )
     select least(count(*), ${maxCountedVersions})::int as versions,
            count(*) > ${maxCountedVersions} as "hasMore",
            count(distinct package_id)::int as packages,
            count(distinct sha256)::int as archives,
            (select count(*)::int from version_readme
              where version_id in (select id from counted) and format <> 'none') as readmes,
            (select count(*)::int from upstream where repository_id = $1) as upstreams
       from counted`,
    [repositoryId],
  )
  return rows[0] as PublishedContent
}

/** Describes what everybody sees and downloads when the repository is public, in sentences. */
export function describePublication(content: PublishedContent): string {
  const { packages, versions, readmes, archives, upstreams, hasMore } = content
  const counts = [
    formatCount(packages, 'package'),
    formatCount(versions, 'version'),
    formatCount(readmes, 'README'),
  ].join(', ')
  const everything = `${hasMore ? 'more than ' : ''}${counts} and ${formatCount(archives, 'archive')}`
  return [
    versions === 0
      ? 'It has no package yet. Anybody can see and download what is published here, without signing in.'
      : `Anybody can then see and download ${everything}, without signing in.`,
    upstreams > 0 ? `Packages of ${formatCount(upstreams, 'upstream')} install through it too.` : '',
    'Members, activity and tokens stay private. You can make it private again, but copies that others have downloaded stay with them.',
  ]
    .filter((sentence) => sentence !== '')
    .join(' ')
}
