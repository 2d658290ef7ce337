import type { Queryable } from '../../database/database.ts'
import { type Access, accessColumns, accessTable, type Door, doorValues } from '../access.ts'

/** A package as a search shows it. */
export interface SearchResult {
  name: string
  description: string
  downloads: number
  abandoned?: true | string
}

const isListed = 'exists (select from package_version v where v.package_id = p.id and v.is_listed)'

/** The packages with all of the words in name, description or keywords: at most 100, the best matches first. */
export async function searchPackages(
  db: Queryable,
  door: Door,
  words: readonly string[],
  type: string | null,
): Promise<Access & { results: SearchResult[]; total: number }> {
  const { rows } = await db.query<Access & { results: SearchResult[]; total: number }>({
    name: 'search-packages',
    text: `select ${accessColumns}, f.results, f.total
             from ${accessTable},
                  lateral (
                    select coalesce(json_agg(result order by place) filter (where place <= 100), '[]') as results,
                           count(*)::int as total
                      from (
                        select json_strip_nulls(json_build_object(
                                 'name', p.name, 'description', p.description,
                                 'downloads', coalesce((select least(d.count, 9007199254740991)
                                                          from package_download_total d where d.package_id = p.id), 0),
                                 'abandoned', case when p.abandoned_at is not null
                                                   then coalesce(to_json(p.replacement), 'true') end)) as result,
                               row_number() over (
                                 order by (select count(*) from unnest($4::text[]) w where strpos(p.name, w) > 0) desc,
                                          char_length(p.name), p.name collate "C") as place
                          from package p
                         where p.repository_id = a.repository_id and ${isListed}
                           and ($5::text is null or p.type = $5)
                           and not exists (
                             select from unnest($4::text[]) w
                              where strpos(p.name, w) = 0 and strpos(lower(p.description), w) = 0
                                and strpos(lower(array_to_string(p.keywords, ' ')), w) = 0)
                      ) matches
                  ) f`,
    values: [...doorValues(door), words, type],
  })
  return rows[0] as Access & { results: SearchResult[]; total: number }
}

/** The names of the packages that match all of the patterns, in which `*` stands for anything. */
export async function listPackageNames(
  db: Queryable,
  door: Door,
  patterns: readonly string[],
): Promise<Access & { names: string[] }> {
  const { rows } = await db.query<Access & { names: string[] }>({
    name: 'list-package-names',
    text: `select ${accessColumns},
                  array(select p.name from package p
                         where p.repository_id = a.repository_id and ${isListed} and p.name like all ($4::text[])
                         order by p.name collate "C") as names
             from ${accessTable}`,
    values: [...doorValues(door), patterns.map(toLikePattern)],
  })
  return rows[0] as Access & { names: string[] }
}

/** The packages of which the newest version says that it provides the name. */
export async function listProviders(
  db: Queryable,
  door: Door,
  name: string,
): Promise<Access & { providers: { name: string; description: string; type: string }[] }> {
  const { rows } = await db.query({
    name: 'list-providers',
    text: `select ${accessColumns},
                  (select coalesce(json_agg(json_build_object('name', p.name, 'description', p.description,
                                                              'type', p.type) order by p.name), '[]')
                     from package p
                    where p.repository_id = a.repository_id and p.provides @> array[$4::text] and ${isListed}
                  ) as providers
             from ${accessTable}`,
    values: [...doorValues(door), name],
  })
  return rows[0]
}

function toLikePattern(pattern: string): string {
  return pattern.replace(/[\\%_]/g, '\\$&').replaceAll('*', '%')
}
