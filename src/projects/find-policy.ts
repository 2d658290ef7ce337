import type { Queryable } from '../database/database.ts'
import {
  accessTable,
  accessValues,
  publisherAccessJson,
  type RegistryRequest,
  type WithAccess,
} from '../groups/access.ts'
import {
  type LicensedVersion,
  type PolicyKind,
  type PolicyRule,
  policyKinds,
  policyRuleJson,
} from './policy.ts'

/**
 * The lists that Composer can ask for, with the rules that each contains. Composer takes each of these names as the name of a
 * policy, too, and people can ignore, report or block each of them.
 */
export const policyLists: ReadonlyMap<string, readonly PolicyKind[]> = new Map<string, readonly PolicyKind[]>(
  [
    ['denied', policyKinds],
    ['denied-packages', ['packages']],
    ['denied-licenses', ['licenses']],
    ['unapproved', ['unapproved']],
  ],
)

/** How many versions of a package are compared with the rules about licences, from each of the three places that know some. */
const maxKnownVersions = 200

/** The rules for a request of Composer, with the access to the repository. */
export interface FoundPolicy extends WithAccess {
  rules: PolicyRule[]
  /** The versions of the named packages whose licences are known. None without a rule about licences. */
  known: LicensedVersion[]
}

/**
 * Finds the rules of the group of a repository, and the licences of the named packages: of the repository's own versions, of those
 * of its upstreams, and, for whoever has a role in it, what lock files of the group say. Finds none in a repository that the request may not see.
 */
export async function findPolicy(
  db: Queryable,
  target: RegistryRequest,
  { kinds, names }: { kinds: readonly PolicyKind[]; names: readonly string[] },
): Promise<FoundPolicy> {
  const { rows } = await db.query<FoundPolicy>({
    name: 'find-policy',
    // The limits and the subquery make PostgreSQL look up each name and version, also when it knows no statistics.
    text: `with a as materialized (
             select a.*, r.group_id from ${accessTable} left join repository r on r.id = a.repository_id
           ), p as materialized (
             select p.* from a join policy_rule p on p.group_id = a.group_id
              where p.kind = any($4) and (a.visibility = 'public' or a.role is not null)
           ), known as (
             select w.name, v.normalized, v.licenses
               from a cross join unnest($5::text[]) as w (name)
              cross join lateral (
                (select v.normalized, coalesce((v.metadata -> 'license')::jsonb, '[]') as licenses
                   from package o join package_version v on v.package_id = o.id
                  where o.repository_id = a.repository_id and o.name = w.name and v.deleted_at is null
                  limit ${maxKnownVersions})
                 union all
                (select coalesce(n.normalized, ''), s.licenses
                   from mirrored_package m
                  cross join lateral jsonb_to_recordset(m.licenses) as s (licenses jsonb, versions text[])
                   left join lateral unnest(s.versions) as n (normalized) on true
                  where m.repository_id = a.repository_id and m.name = w.name and m.upstream_id is not null
                  limit ${maxKnownVersions})
                 union all
                (select l.normalized, coalesce(l.entry -> 'licenses', '[]')
                   from locked_package l
                  where a.role is not null and l.name = w.name
                    and (select true from group_locked_package n where n.package_id = l.id and n.group_id = a.group_id)
                  limit ${maxKnownVersions})) v
           )
           select ${publisherAccessJson} as access,
                  (select coalesce(json_agg(${policyRuleJson} order by p.id), '[]') from p) as rules,
                  case when exists (select from p where kind = 'licenses')
                    then (select coalesce(json_agg(k), '[]') from known k) else '[]' end as known
             from a`,
    values: [...accessValues(target), kinds, names],
  })
  return rows[0] as FoundPolicy
}
