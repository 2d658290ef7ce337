import type pg from 'pg'
import { advisoryLocks, type Queryable, sweepOf } from '../database/database.ts'
import type { Log } from '../domain/log.ts'
import { cleanLine, shortenText } from '../domain/plain-text.ts'
import type { Principal } from '../domain/principal.ts'
import { Refusal } from '../domain/refusal.ts'
import { makePause } from '../domain/time-slices.ts'
import { insertEvents } from '../events/events.ts'
import type { AuditedName, ListUpstreamAdvisories } from '../upstreams/advisories.ts'
import { readConstraint } from '../upstreams/documents/satisfies.ts'
import { findPolicyOfGroup, type Policy } from './policy.ts'

/** Why a locked package needs attention. */
export const findingReasons = [
  'advisory',
  'quarantined',
  'malware',
  'abandoned',
  'denied',
  'license',
] as const
export type FindingReason = (typeof findingReasons)[number]

/** What is wrong with a package that a project has locked. */
export interface Finding {
  package: string
  version: string
  reason: FindingReason
  /** The id of the advisory. Null for other reasons. */
  advisory: string | null
  /** What the advisory, quarantine, flag or rule says, or the replacement of an abandoned package. */
  title: string | null
}

/** A locked package with something wrong. */
interface Flagged {
  id: number
  reason: FindingReason
  advisory: string
  title: string | null
}

/** What is known about locked packages. */
export interface Judgement {
  flagged: Flagged[]
  /** Packages whose upstream does not respond: findings about their advisories stay as they are. */
  unknownNames: string[]
}

interface Locked {
  id: number
  name: string
  version: string
  normalized: string
  abandoned: string | null
  licenses: string[]
}

interface OwnFlags {
  name: string
  advisories: { id: string; title: string; constraint: string }[]
  quarantined: { normalized: string; reason: string }[]
  abandoned: string | null
  malware: { constraint: string | null; reason: string | null }[]
  /** Whether an upstream serves it in a repository of the group. */
  isMirrored: boolean
}

const maxTitle = 500
/** Ids have about 20 characters. An upstream can write anything. */
const maxAdvisoryId = 200
/** How many advisories of a version become findings. Upstreams return any number. */
const maxAdvisories = 100

/** What upstreams say about locked packages. */
export interface UpstreamSayings {
  advisories: Map<string, OwnFlags['advisories']>
  /** The names that upstreams were asked about, and those of them whose upstream does not respond. */
  askedNames: Set<string>
  unknownNames: string[]
}

/** Whose packages are judged. */
interface Judged {
  groupId: string
  ids: readonly number[]
}

/**
 * Judges locked packages by the rules of a group, by what its repositories know now, and by what upstreams said before:
 * advisories, quarantines and abandonment of their own packages, malware flags of packages that they mirror, and advisories of
 * upstreams. Call it in the transaction that settles the findings, with the locks of the group: see `shareLocks`.
 */
export async function judgeLocked(
  tx: pg.PoolClient,
  { groupId, ids }: Judged,
  { advisories, askedNames, unknownNames }: UpstreamSayings,
): Promise<Judgement> {
  const { rows: locked } = await tx.query<Locked>(
    `select id, name, version, normalized, entry ->> 'abandoned' as abandoned,
            coalesce(entry -> 'licenses', '[]') as licenses
       from locked_package where id = any($1) order by id`,
    [ids],
  )
  const names = [...new Set(locked.map(({ name }) => name))]
  const flagsByName = new Map((await listFlags(tx, groupId, names)).map((flags) => [flags.name, flags]))
  const policy = await findPolicyOfGroup(tx, groupId)
  const pause = makePause()
  const flagged: Flagged[] = []
  for (const one of locked) {
    await pause()
    const flags = flagsByName.get(one.name) ?? noFlags
    for (const flag of [...flagsOf(one, flags, advisories.get(one.name) ?? []), ...deniedBy(policy, one)])
      flagged.push({
        id: one.id,
        reason: flag.reason,
        advisory: lineOf(flag.advisory, maxAdvisoryId),
        title: flag.title === null ? null : lineOf(flag.title, maxTitle),
      })
  }
  const unasked = names.filter((name) => flagsByName.get(name)?.isMirrored && !askedNames.has(name))
  return { flagged, unknownNames: [...unknownNames, ...unasked] }
}

/** What is known of a package that no repository of the group has. */
const noFlags: Omit<OwnFlags, 'name'> = {
  advisories: [],
  quarantined: [],
  abandoned: null,
  malware: [],
  isMirrored: false,
}

/**
 * Keeps the comparison of all lock files of a group waiting until the transaction ends. Call it before a lock file is stored and
 * judged. So a warning that is made meanwhile is either seen here, or its comparison sees this lock file.
 */
export async function shareLocks(tx: pg.PoolClient, groupId: string): Promise<void> {
  // The comparison of thousands of projects takes longer than a statement usually waits.
  await tx.query(`set local lock_timeout = '30s'`)
  await tx.query(
    `select pg_advisory_xact_lock_shared(${advisoryLocks.locks}, ($1::bigint % 2147483647)::int)`,
    [groupId],
  )
}

/** Waits for all lock files of a group that are being stored, and keeps others waiting until the transaction ends. */
export async function holdLocks(tx: pg.PoolClient, groupId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(${advisoryLocks.locks}, ($1::bigint % 2147483647)::int)`, [
    groupId,
  ])
}

/** The ellipsis is one of the characters. */
function lineOf(text: string, maxCharacters: number): string {
  return shortenText(cleanLine(text), maxCharacters - 1)
}

type Flag = Omit<Flagged, 'id'>

function flagsOf(one: Locked, flags: Omit<OwnFlags, 'name'>, theirs: OwnFlags['advisories']): Flag[] {
  const advisories = [...flags.advisories, ...theirs]
    .filter(({ constraint }) => one.normalized !== '' && readConstraint(constraint)(one.normalized))
    .slice(0, maxAdvisories)
    .map(({ id, title }): Flag => ({ reason: 'advisory', advisory: id, title }))
  const quarantined = flags.quarantined
    .filter(({ normalized }) => normalized === one.normalized)
    .slice(0, 1)
    .map(({ reason }): Flag => ({ reason: 'quarantined', advisory: '', title: reason }))
  const malware = flags.malware
    .filter(
      ({ constraint }) =>
        constraint !== null && one.normalized !== '' && readConstraint(constraint)(one.normalized),
    )
    .slice(0, 1)
    .map(({ reason }): Flag => ({ reason: 'malware', advisory: '', title: reason }))
  return [
    ...advisories,
    ...quarantined,
    ...malware,
    ...abandonedBy({ abandoned: flags.abandoned ?? one.abandoned }),
  ]
}

/** `abandoned` is `true`, or the name of the replacement. */
function abandonedBy({ abandoned }: Pick<Locked, 'abandoned'>): Flag[] {
  if (abandoned === null) return []
  return [{ reason: 'abandoned', advisory: '', title: abandoned === 'true' ? null : abandoned }]
}

/** A version has one finding for all rules about packages, and one for those about licences. */
function deniedBy(policy: Policy, one: Locked): Flag[] {
  const against = policy.rulesAgainst(one)
  const flagOf = (reason: 'denied' | 'license', isAbout: (typeof against)[number] | undefined): Flag[] =>
    isAbout ? [{ reason, advisory: '', title: isAbout.reason }] : []
  return [
    ...flagOf(
      'denied',
      against.find(({ rule }) => rule.kind !== 'licenses'),
    ),
    ...flagOf(
      'license',
      against.find(({ rule }) => rule.kind === 'licenses'),
    ),
  ]
}

async function listFlags(db: Queryable, groupId: string, names: readonly string[]): Promise<OwnFlags[]> {
  const { rows } = await db.query<OwnFlags>(
    `with ours as (
       select p.id, p.name, p.abandoned_at, p.replacement
         from package p join repository r on r.id = p.repository_id
        where r.group_id = $1 and p.name = any($2)
     ), mirrored as (
       select m.name, m.flags, m.summary
         from mirrored_package m join repository r on r.id = m.repository_id
        where r.group_id = $1 and m.name = any($2) and m.upstream_id is not null
          and not exists (select from package p where p.repository_id = m.repository_id and p.name = m.name)
     )
     select n.name,
            (select coalesce(jsonb_agg(jsonb_build_object('id', y.advisory_id, 'title', y.title,
                                                          'constraint', y.affected_versions) order by y.id), '[]')
               from ours o join advisory y on y.package_id = o.id
              where o.name = n.name and y.withdrawn_at is null) as advisories,
            (select coalesce(jsonb_agg(jsonb_build_object('normalized', v.normalized, 'reason', v.quarantine_reason)), '[]')
               from ours o join package_version v on v.package_id = o.id
              where o.name = n.name and v.quarantined_at is not null) as quarantined,
            (select coalesce(max(o.replacement), 'true') from ours o
              where o.name = n.name and o.abandoned_at is not null having count(*) > 0) as abandoned,
            (select coalesce(jsonb_agg(f.flag), '[]')
               from mirrored m
              cross join lateral (select flag from jsonb_array_elements(m.flags) flag
                                   union
                                  select jsonb_build_object('constraint', m.summary, 'reason', null)
                                   where m.summary is not null) f
              where m.name = n.name) as malware,
            exists (select from mirrored m where m.name = n.name) as "isMirrored"
       from (select name from ours union select name from mirrored) n`,
    [groupId, names],
  )
  return rows
}

/**
 * Asks upstreams about the advisories of locked packages: about mirrored ones their own upstream, and about those that no
 * repository of the group has all upstreams that may offer them. A lock is stored even if an upstream does not respond.
 */
export async function askUpstreams(
  db: Queryable,
  list: ListUpstreamAdvisories,
  { groupId, ids, log }: Judged & { log: Log },
): Promise<UpstreamSayings> {
  const asked = await listAuditedNames(db, groupId, ids)
  const said: UpstreamSayings = {
    advisories: new Map(),
    askedNames: new Set(asked.map(({ name }) => name)),
    unknownNames: [],
  }
  // An upstream that fails hides what others say about other names.
  const byUpstreams = new Map<string, AuditedName[]>()
  for (const one of asked) {
    const key = one.upstreamIds.join()
    const some = byUpstreams.get(key)
    if (some) some.push(one)
    else byUpstreams.set(key, [one])
  }
  for (const some of byUpstreams.values()) {
    try {
      for (const [name, served] of Object.entries(await list(some)))
        said.advisories.set(
          name,
          served.map(({ text }) => readServed(JSON.parse(text) as Record<string, unknown>)),
        )
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      log.warn({ err: error }, 'the advisories of locked packages could not be read')
      said.unknownNames.push(...some.map(({ name }) => name))
    }
  }
  return said
}

/**
 * Lists the upstreams that may be asked about locked packages. The rules for names that are not bound are those of the SQL
 * function `package_origin`, for all repositories of a group in one statement: neither the group's own packages nor claimed
 * vendors, and no upstream that waits for an approval, or comes after it.
 */
async function listAuditedNames(
  db: Queryable,
  groupId: string,
  ids: readonly number[],
): Promise<AuditedName[]> {
  const { rows } = await db.query<AuditedName>(
    `with named as materialized (
       select distinct name from locked_package where id = any($2)
     ), bound as materialized (
       select m.name, array_agg(distinct m.upstream_id::text) as ids
         from named n join mirrored_package m on m.name = n.name
         join repository r on r.id = m.repository_id
        where r.group_id = $1 and m.upstream_id is not null
          and not exists (select from package p where p.repository_id = m.repository_id and p.name = m.name)
        group by m.name
     ), foreign_name as materialized (
       select name from named n
        where not exists (select from bound b where b.name = n.name)
          and not exists (select from package p join repository r on r.id = p.repository_id
                           where r.group_id = $1 and p.name = n.name)
          and not exists (select from vendor_claim c
                           where c.group_id = $1 and c.vendor = split_part(n.name, '/', 1)
                             and not matches_pattern(n.name, c.exceptions))
     ), offering as materialized (
       select u.* from upstream u join repository r on r.id = u.repository_id
        where r.group_id = $1 and u.removed_at is null and u.mode <> 'off'
     )
     select name, ids as "upstreamIds", true as "isBound" from bound
      union all
     select n.name, array_agg(u.id::text order by u.id), false
       from foreign_name n join offering u on may_offer(n.name, u.allow, u.deny)
      where not exists (select from offering e
                         where e.repository_id = u.repository_id and e.mode = 'approved'
                           and (e.position, e.id) <= (u.position, u.id) and may_offer(n.name, e.allow, e.deny))
      group by n.name`,
    [groupId, ids],
  )
  return rows
}

function readServed(advisory: Record<string, unknown>): OwnFlags['advisories'][number] {
  const { advisoryId, title, affectedVersions } = advisory
  return {
    id: String(advisoryId),
    title: typeof title === 'string' ? title : '',
    constraint: String(affectedVersions),
  }
}

/** The locks to settle: all of a group, or one. */
export interface SettledLocks {
  groupId: string
  lock: { projectId: string; environment: string } | null
  /** Locked packages that the judgement does not know. Locks that contain one are left out. */
  unjudged?: readonly number[]
}

/**
 * Compares the findings of locks with what is known now: new ones are stored, the others are resolved. Writes an event for
 * each project and environment, which tells the admins of the group about new ones. Another version of a package with the same
 * advisory, rule or abandonment is no news: the finding stays open, and follows the version. A quarantine and a malware flag are
 * about one version. Call it in a transaction that holds the locks' rows.
 */
export async function settleFindings(
  tx: pg.PoolClient,
  by: Principal,
  { groupId, lock, unjudged = [] }: SettledLocks,
  { flagged, unknownNames }: Judgement,
): Promise<void> {
  const { rows } = await tx.query<{
    project: string
    environment: string
    found: Finding[] | null
    resolved: Finding[] | null
  }>(
    `with flagged as materialized (
       select f.id, p.name, p.version, f.reason, f.advisory, f.title
         from jsonb_to_recordset($4) as f (id integer, reason text, advisory text, title text)
         join locked_package p on p.id = f.id
     ), settled as materialized (
       select l.project_id, l.environment, l.packages, j.name as project
         from project j join project_lock l on l.project_id = j.id
        where j.group_id = $1 and ($2::bigint is null or (l.project_id = $2 and l.environment = $3))
          and not l.packages && $6::integer[]
     ), present as materialized (
       select s.project_id, s.environment, f.name, f.version, f.reason, f.advisory, f.title
         from settled s
        cross join lateral unnest(s.packages) as u (id)
         join flagged f on f.id = u.id
        where s.packages && array(select id from flagged)
     ), follows as materialized (
       select distinct on (f.id) f.id, p.version, p.title
         from project_finding f
         join (select distinct on (project_id, environment, name, reason, advisory) p.* from present p
                where p.reason not in ('quarantined', 'malware')
                  and not exists (select from project_finding k where ${isOf('k', 'p')} and k.version = p.version)
                order by project_id, environment, name, reason, advisory, version) p on ${isOf('f', 'p')}
        where not exists (select from present q where ${isOf('f', 'q')} and q.version = f.version)
          and f.id = (select min(k.id) from project_finding k where ${isOf('k', 'p')})
     ), moved as (
       update project_finding f set version = n.version, title = n.title from follows n where f.id = n.id
       returning f.*
     ), added as (
       insert into project_finding (project_id, environment, package_name, version, reason, advisory, title)
       select project_id, environment, name, version, reason, advisory, title from present p
        where not exists (select from moved m where ${isOf('m', 'p')} and m.version = p.version)
           on conflict (project_id, environment, package_name, version, reason, advisory) where resolved_at is null
           do nothing
       returning *
     ), retitled as (
       update project_finding f set title = p.title
         from present p
        where f.project_id = p.project_id and f.environment = p.environment and f.package_name = p.name
          and f.version = p.version and f.reason = p.reason and f.advisory = p.advisory and f.resolved_at is null
          and f.title is distinct from p.title
     ), ended as (
       update project_finding f set resolved_at = now()
         from settled s
        where f.project_id = s.project_id and f.environment = s.environment and f.resolved_at is null
          and f.id not in (select id from moved)
          and not (f.reason = 'advisory' and f.package_name = any($5)
                   and exists (select from locked_package p
                                where p.id = any(s.packages) and p.name = f.package_name and p.version = f.version))
          and not exists (select from present p
                           where p.project_id = f.project_id and p.environment = f.environment
                             and p.name = f.package_name and p.version = f.version and p.reason = f.reason
                             and p.advisory = f.advisory)
       returning f.*
     ), changed as (
       select project_id, environment, true as is_new, package_name, version, reason, advisory, title from added
        union all
       select project_id, environment, false, package_name, version, reason, advisory, title from ended
     )
     select s.project, c.environment,
            jsonb_agg(${findingJson('c')} order by c.package_name, c.reason, c.advisory) filter (where c.is_new) as found,
            jsonb_agg(${findingJson('c')} order by c.package_name, c.reason, c.advisory) filter (where not c.is_new) as resolved
       from changed c join settled s using (project_id, environment)
      group by s.project, c.environment
      order by s.project, c.environment`,
    [
      groupId,
      lock?.projectId ?? null,
      lock?.environment ?? null,
      JSON.stringify(flagged),
      unknownNames,
      unjudged,
    ],
  )
  const events = rows.flatMap(({ project, environment, found, resolved }) => [
    ...(found ? [eventOf('affect-project', { project, environment, findings: found })] : []),
    ...(resolved ? [eventOf('resolve-project', { project, environment, findings: resolved })] : []),
  ])
  await insertEvents(tx, by, events)

  function eventOf(
    action: 'affect-project' | 'resolve-project',
    { project, environment, findings }: { project: string; environment: string; findings: Finding[] },
  ) {
    const [first] = findings
    const more = findings.length > 1 ? ` and ${findings.length - 1} more` : ''
    const details = {
      project,
      environment,
      reason: `${first?.package} ${first?.version}: ${first?.title ?? first?.reason}${more}`,
      // An event must stay small.
      findings: findings.slice(0, 20),
    }
    return { action, groupId, details }
  }
}

/** SQL: whether an open finding is about the package of a present one, for the same reason, of whichever version. */
function isOf(finding: string, present: string): string {
  const both = ['project_id', 'environment', 'reason', 'advisory'].map(
    (name) => `${finding}.${name} = ${present}.${name}`,
  )
  return `(${both.join(' and ')} and ${finding}.package_name = ${present}.name and ${finding}.resolved_at is null)`
}

/** SQL that makes a `Finding` of a row. */
export function findingJson(row: string): string {
  return `jsonb_build_object('package', ${row}.package_name, 'version', ${row}.version, 'reason', ${row}.reason,
                             'advisory', nullif(${row}.advisory, ''), 'title', ${row}.title)`
}

/** Deletes at most `limit` findings that were resolved a year ago. Returns how many it deleted. */
export const deleteFormerFindings = sweepOf(
  'project_finding',
  'id',
  "resolved_at < now() - interval '1 year'",
)
