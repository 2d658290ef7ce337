import type pg from 'pg'
import { type Queryable, sweepOf } from '../database/database.ts'
import type { Log } from '../domain/log.ts'
import { cleanLine, shortenText } from '../domain/plain-text.ts'
import type { Principal } from '../domain/principal.ts'
import { Refusal } from '../domain/refusal.ts'
import { makePause } from '../domain/time-slices.ts'
import { insertEvents } from '../events/events.ts'
import type { AuditedName, ListUpstreamAdvisories } from '../upstreams/advisories.ts'
import { readConstraint } from '../upstreams/documents/satisfies.ts'
import { listPolicyRules, type Policy, readPolicy } from './policy.ts'

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
  /** The upstream that serves the name. */
  upstreamIds: string[]
}

const maxTitle = 500
/** Ids have about 20 characters. An upstream can write anything. */
const maxAdvisoryId = 200
/** How many advisories of a version become findings. Upstreams return any number. */
const maxAdvisories = 100

/**
 * Judges locked packages by the rules of a group, and by what its repositories know: advisories, quarantines and abandonment of
 * their own packages, and malware flags and advisories of packages that they mirror. Only the rules judge packages that no
 * repository of the group has.
 */
export async function judgeLocked(
  db: Queryable,
  listUpstreamAdvisories: ListUpstreamAdvisories,
  { groupId, ids, log }: { groupId: string; ids: readonly number[]; log: Log },
): Promise<Judgement> {
  const { rows: locked } = await db.query<Locked>(
    `select id, name, version, normalized, entry ->> 'abandoned' as abandoned,
            coalesce(entry -> 'licenses', '[]') as licenses
       from locked_package where id = any($1) order by id`,
    [ids],
  )
  const names = [...new Set(locked.map(({ name }) => name))]
  const flagsByName = new Map((await listFlags(db, groupId, names)).map((flags) => [flags.name, flags]))
  const policy = readPolicy(await listPolicyRules(db, groupId))
  const theirs = await readUpstreamAdvisories(listUpstreamAdvisories, [...flagsByName.values()], log)
  const pause = makePause()
  const flagged: Flagged[] = []
  for (const one of locked) {
    await pause()
    const flags = flagsByName.get(one.name)
    const known = flags ? flagsOf(one, flags, theirs.advisories.get(one.name) ?? []) : abandonedBy(one)
    for (const flag of [...known, ...deniedBy(policy, one)])
      flagged.push({
        id: one.id,
        reason: flag.reason,
        advisory: lineOf(flag.advisory, maxAdvisoryId),
        title: flag.title === null ? null : lineOf(flag.title, maxTitle),
      })
  }
  return { flagged, unknownNames: theirs.unknownNames }
}

/** The ellipsis is one of the characters. */
function lineOf(text: string, maxCharacters: number): string {
  return shortenText(cleanLine(text), maxCharacters - 1)
}

type Flag = Omit<Flagged, 'id'>

function flagsOf(one: Locked, flags: OwnFlags, theirs: OwnFlags['advisories']): Flag[] {
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
       select m.name, m.flags, m.summary, m.upstream_id
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
            array(select distinct m.upstream_id::text from mirrored m where m.name = n.name) as "upstreamIds"
       from (select name from ours union select name from mirrored) n`,
    [groupId, names],
  )
  return rows
}

/** Asks the upstreams of mirrored packages. A lock is stored even if an upstream does not respond. */
async function readUpstreamAdvisories(
  list: ListUpstreamAdvisories,
  flags: readonly OwnFlags[],
  log: Log,
): Promise<{ advisories: Map<string, OwnFlags['advisories']>; unknownNames: string[] }> {
  const asked = flags
    .filter(({ upstreamIds }) => upstreamIds.length > 0)
    .map(({ name, upstreamIds }): AuditedName => ({ name, upstreamIds, isBound: true }))
  const advisories = new Map<string, OwnFlags['advisories']>()
  if (asked.length === 0) return { advisories, unknownNames: [] }
  try {
    for (const [name, served] of Object.entries(await list(asked)))
      advisories.set(
        name,
        served.map(({ text }) => readServed(JSON.parse(text) as Record<string, unknown>)),
      )
    return { advisories, unknownNames: [] }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    log.warn({ err: error }, 'the advisories of locked packages could not be read')
    return { advisories, unknownNames: asked.map(({ name }) => name) }
  }
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
 * each project and environment, which tells the admins of the group about new ones. Call it in a transaction that holds the
 * locks' rows.
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
     ), added as (
       insert into project_finding (project_id, environment, package_name, version, reason, advisory, title)
       select project_id, environment, name, version, reason, advisory, title from present
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
  if (events.length === 0) return
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
    return { action, repositoryId: null, groupId, packageName: null, version: null, details }
  }
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
