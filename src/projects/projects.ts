import type pg from 'pg'
import { isConstraint } from '../composer/constraint.ts'
import { toLowerAscii } from '../composer/package-name.ts'
import type { AppContext } from '../context.ts'
import { accountName } from '../database/account-name.ts'
import { type Queryable, transaction } from '../database/database.ts'
import type { Log } from '../domain/log.ts'
import type { ListPart } from '../domain/paging.ts'
import { isPlainText } from '../domain/plain-text.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { openThreads, ThreadFailure } from '../domain/threads.ts'
import { insertEvent } from '../events/events.ts'
import { requireLivePrincipal } from '../groups/live-principal.ts'
import type { ListUpstreamAdvisories } from '../upstreams/advisories.ts'
import { readConstraint } from '../upstreams/documents/satisfies.ts'
import { noteLockedPackages } from './check-projects.ts'
import {
  askUpstreams,
  type Finding,
  findingJson,
  judgeLocked,
  settleFindings,
  shareLocks,
} from './findings.ts'
import type { LockFilePackage } from './lock-file.ts'
import type { LockReading, LockTask } from './lock-thread.ts'
import type { SbomSubject } from './sbom.ts'

/** The maximum size of a lock file in bytes. */
export const maxLockBytes = 16 * 1024 * 1024
const maxProjects = 10_000
/** Most have one to five. */
const maxEnvironments = 100
/** How many findings of a lock a list shows, and the page of one project. A lock can have thousands. */
const maxListedFindings = 20
const maxFindings = 500
const readMilliseconds = 10_000
/** Thousands of versions of a package are known. A question about more would compare for too long. */
const maxAskedVersions = 20_000

/** Strangers send lock files: the thread reads one at a time, and one that needs too much memory ends only the thread. */
const threads = openThreads<LockTask>(new URL('./lock-thread', import.meta.url), {
  count: 1,
  maxHeapMegabytes: 512,
})

/** Where a lock file is in use. */
export interface LockPlace {
  /** The name of the project. */
  project: string
  /** Such as production. */
  environment: string
  /** The commit of the project. Null when nobody said it. */
  commit: string | null
}

/** What became of a lock file. */
export interface PostedLock {
  project: string
  packages: number
  /** What is wrong now with the packages of the lock file. */
  affected: Finding[]
}

/** What the verbs of projects need. */
export interface ProjectContext extends AppContext {
  listUpstreamAdvisories: ListUpstreamAdvisories
  log: Log
}

/**
 * Stores the lock file of a project and environment in place of the former one, and judges its packages. The first lock
 * makes the project. Throws errcode 3 for a text that is no lock file and for wrong names, and errcode 8 when the group has
 * too many projects.
 */
export async function postLock(
  context: ProjectContext,
  { groupId, by }: { groupId: string; by: Principal },
  place: LockPlace,
  bytes: Uint8Array,
): Promise<PostedLock> {
  requirePlace(place)
  const packages = await readLock(groupId, bytes)
  const { db, listUpstreamAdvisories, log } = context
  const ids = await savePackages(db, packages)
  const judged = { groupId, ids: [...ids.values()] }
  const sayings = await askUpstreams(db, listUpstreamAdvisories, { ...judged, log })
  const affected = await transaction(db, async (tx) => {
    await shareLocks(tx, groupId)
    // That is for sessions and personal tokens. The token of an application was checked as for every other change.
    if (by.token?.kind !== 'access') await requireLivePrincipal(tx, by)
    const projectId = await findOrMakeProject(tx, by, groupId, place.project)
    await saveLock(tx, projectId, place, by, packages, ids)
    await noteLockedPackages(tx, groupId, [...ids.values()])
    const lock = { projectId, environment: place.environment }
    await settleFindings(tx, by, { groupId, lock }, await judgeLocked(tx, judged, sayings))
    return listFindings(tx, lock)
  })
  return { project: place.project, packages: packages.length, affected }
}

function requirePlace({ project, environment, commit }: LockPlace): void {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(project))
    throw invalid(
      'the name of a project has 1 to 100 letters, digits and . _ -, and begins with a letter or digit',
    )
  if (!/^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$/.test(environment))
    throw invalid(
      'the name of an environment has 1 to 100 letters, digits and . _ - /, and begins with a letter or digit',
    )
  if (commit !== null && (commit === '' || commit.length > 100 || !isPlainText(commit)))
    throw invalid('commit must have 1 to 100 characters')
}

async function readLock(groupId: string, bytes: Uint8Array): Promise<LockFilePackage[]> {
  if (bytes.byteLength > maxLockBytes)
    throw new Refusal(errcode.resourceExhausted, 'a lock file can have at most 16 MiB', { status: 413 })
  try {
    const reading = await threads.run<LockReading>(
      { lock: bytes },
      { milliseconds: readMilliseconds, owner: groupId },
    )
    if ('problem' in reading) throw invalid(reading.problem)
    return reading.packages
  } catch (error) {
    if (!(error instanceof ThreadFailure)) throw error
    throw new Refusal(errcode.invalidArgument, `the lock file cannot be read: it ${error.message}`, {
      cause: error,
    })
  }
}

/**
 * Stores the packages that no lock file has named yet. Returns the ids of all, by their digests. A row stays for a month
 * after a lock has named it, so that the sweep never takes one that a transaction is about to name.
 */
async function savePackages(
  db: Queryable,
  packages: readonly LockFilePackage[],
): Promise<Map<string, number>> {
  const sent = JSON.stringify(
    packages
      .map(({ digest, name, version, normalized, entry }) => ({ digest, name, version, normalized, entry }))
      .toSorted((one, other) => (one.digest < other.digest ? -1 : 1)),
  )
  for (;;) {
    const { rows } = await db.query<{ id: number; digest: string }>(
      `with sent as materialized (
         select decode(s.digest, 'hex') as digest, s.name, s.version, s.normalized, s.entry
           from jsonb_to_recordset($1) as s (digest text, name text, version text, normalized text, entry jsonb)
       ), known as materialized (
         select p.id, p.digest, p.used_on < current_date - 7 as is_old
           from sent s join locked_package p on p.digest = s.digest
       ), used as (
         update locked_package set used_on = current_date
          where id = any(array(select id from known where is_old order by id))
         returning id, digest
       ), added as (
         insert into locked_package (digest, name, version, normalized, entry)
         select digest, name, version, normalized, entry from sent s
          where not exists (select from known k where k.digest = s.digest)
          order by digest
             on conflict (digest) do update set used_on = excluded.used_on
         returning id, digest
       )
       select id, encode(digest, 'hex') as digest from known where not is_old
        union all
       select id, encode(digest, 'hex') from used
        union all
       select id, encode(digest, 'hex') from added`,
      [sent],
    )
    // Otherwise the sweep has deleted one after it was found, and it is added now.
    if (rows.length === packages.length) return new Map(rows.map(({ id, digest }) => [digest, id]))
  }
}

async function findOrMakeProject(
  tx: pg.PoolClient,
  by: Principal,
  groupId: string,
  name: string,
): Promise<string> {
  const known = await findProjectId(tx, groupId, name)
  if (known !== null) return known
  await tx.query('select from repository_group where id = $1 for no key update', [groupId])
  const { rows } = await tx.query<{ id: string }>(
    `insert into project (group_id, name)
     select $1, $2 where (select count(*) from project where group_id = $1) < ${maxProjects}
         on conflict do nothing returning id`,
    [groupId, name],
  )
  const [made] = rows
  if (made) {
    await insertEvent(tx, by, {
      groupId,
      action: 'create-project',
      details: { project: name },
    })
    return made.id
  }
  const madeByOther = await findProjectId(tx, groupId, name)
  if (madeByOther !== null) return madeByOther
  const errmsg = `a group can have at most ${maxProjects} projects: delete one`
  throw new Refusal(errcode.resourceExhausted, errmsg, { status: 403 })
}

async function findProjectId(db: Queryable, groupId: string, name: string): Promise<string | null> {
  const { rows } = await db.query<{ id: string }>(
    'select id from project where group_id = $1 and name = $2 for key share',
    [groupId, name],
  )
  return rows[0]?.id ?? null
}

async function saveLock(
  tx: pg.PoolClient,
  projectId: string,
  { environment, commit }: LockPlace,
  by: Principal,
  packages: readonly LockFilePackage[],
  ids: ReadonlyMap<string, number>,
): Promise<void> {
  const idsOf = (some: readonly LockFilePackage[]) =>
    some.map(({ digest }) => ids.get(digest) as number).toSorted((one, other) => one - other)
  // Two new environments at once would pass the maximum. The insert counts after the lock.
  await tx.query(
    `select from project
      where id = $1 and not exists (select from project_lock where project_id = $1 and environment = $2)
        for no key update`,
    [projectId, environment],
  )
  const { rowCount } = await tx.query(
    `insert into project_lock (project_id, environment, commit_id, posted_by, packages, dev_packages)
     select $1, $2, $3, $4, $5, $6
      where (select count(*) from project_lock where project_id = $1 and environment <> $2) < ${maxEnvironments}
         on conflict (project_id, environment) do update
        set commit_id = excluded.commit_id, posted_by = excluded.posted_by, posted_at = now(),
            packages = excluded.packages, dev_packages = excluded.dev_packages`,
    [
      projectId,
      environment,
      commit,
      by.accountId,
      idsOf(packages),
      idsOf(packages.filter(({ isDev }) => isDev)),
    ],
  )
  if (rowCount === 1) return
  const errmsg = `a project can have at most ${maxEnvironments} environments`
  throw new Refusal(errcode.resourceExhausted, errmsg, { status: 403 })
}

/** The lock of an environment. */
export interface ProjectLock {
  environment: string
  commit: string | null
  postedAt: Date
  /** The account that sent it. Null for a deploy token and the command line. */
  postedBy: string | null
  /** The number of packages. */
  packages: number
  /** The version of the package that was asked for. Null when none was. */
  version: string | null
  /** The number of findings. */
  problems: number
  /** The first ones: in a list 20, of a single project 500. */
  affected: Finding[]
}

/** A project of a group, with the newest lock of each environment. */
export interface Project {
  name: string
  createdAt: Date
  locks: ProjectLock[]
}

/** Which projects are wanted. */
export interface ProjectFilter {
  /** Only locks that contain this package. */
  package?: string | null
  /** Only locks with a version of the package that satisfies this constraint. */
  constraint?: string | null
  /** Only locks with a finding. */
  isAffected?: boolean
  /** Only this project. */
  name?: string | null
}

/**
 * Lists the projects of a group by name, each with the locks that the filter wants. Projects without such a lock are left out.
 * Throws errcode 3 for a constraint that Composer cannot read, and for one without a package.
 */
export async function listProjects(
  db: Queryable,
  groupId: string,
  filter: ProjectFilter,
  { after, limit }: ListPart,
): Promise<Project[]> {
  const asked = await findAskedVersions(db, groupId, filter)
  const { rows } = await db.query<Project>({
    name: 'list-projects',
    text: `with wanted as materialized (
             select j.id, j.name, j.created_at
               from project j
              where j.group_id = $1 and j.name > $2 and ($3::text is null or j.name = $3)
                and exists (select from project_lock l
                             where l.project_id = j.id
                               and ($4::integer[] is null or l.packages && $4)
                               and (not $5 or ${isAffected}))
              order by j.name limit $6
           )
           select w.name, w.created_at as "createdAt", locks.list as locks
             from wanted w
            cross join lateral (
              select jsonb_agg(jsonb_build_object(
                       'environment', l.environment, 'commit', l.commit_id, 'postedAt', l.posted_at,
                       'postedBy', ${accountName('l.posted_by')}, 'packages', cardinality(l.packages),
                       'version', (select p.version from locked_package p
                                    where p.id = any(l.packages) and p.id = any($4) limit 1),
                       'problems', findings.count, 'affected', findings.list)
                     order by l.environment) as list
                from project_lock l
               cross join lateral (
                 select count(*)::int as count,
                        coalesce(jsonb_agg(f.finding order by f.rank) filter (where f.rank <= $7), '[]') as list
                   from (select ${findingJson('f')} as finding,
                                row_number() over (order by f.package_name, f.reason, f.advisory) as rank
                           from project_finding f
                          where f.project_id = l.project_id and f.environment = l.environment
                            and f.resolved_at is null) f) findings
               where l.project_id = w.id and ($4::integer[] is null or l.packages && $4) and (not $5 or ${isAffected})
            ) locks
            order by w.name`,
    values: [
      groupId,
      after ?? '',
      filter.name ?? null,
      asked,
      filter.isAffected ?? false,
      limit,
      filter.name ? maxFindings : maxListedFindings,
    ],
  })
  for (const { locks } of rows) for (const lock of locks) lock.postedAt = new Date(lock.postedAt)
  return rows
}

const isAffected = `exists (select from project_finding f
                     where f.project_id = l.project_id and f.environment = l.environment and f.resolved_at is null)`

/** Returns the ids of the locked packages that a filter wants. Null when it wants all. */
async function findAskedVersions(
  db: Queryable,
  groupId: string,
  { package: name, constraint }: ProjectFilter,
): Promise<number[] | null> {
  if ((name ?? null) === null) {
    if ((constraint ?? null) === null) return null
    throw invalid('a constraint needs a package: name one, such as vendor/package')
  }
  if ((constraint ?? null) !== null && !isConstraint(constraint as string))
    throw invalid('constraint must be one that Composer can read, such as <2.0')
  const readVersions = async (isOwn: boolean) => {
    const { rows } = await db.query<{ id: number; normalized: string }>(
      `select p.id, p.normalized from locked_package p
        where p.name = $1
          and (not $2 or exists (select from project_lock l join project j on j.id = l.project_id
                                  where l.packages @> array[p.id] and j.group_id = $3))
        limit $4`,
      [toLowerAscii((name as string).trim()), isOwn, groupId, maxAskedVersions],
    )
    return rows
  }
  const known = await readVersions(false)
  // Other groups may have sent any number of versions. Most packages have few, and then this costs nothing.
  const versions = known.length < maxAskedVersions ? known : await readVersions(true)
  const isWanted = (constraint ?? null) === null ? () => true : readConstraint(constraint as string)
  return versions
    .filter(({ normalized }) => (normalized === '' ? (constraint ?? null) === null : isWanted(normalized)))
    .map(({ id }) => id)
}

/** Finds a project by name. Null when there is none. */
export async function findProject(db: Queryable, groupId: string, name: string): Promise<Project | null> {
  const [project] = await listProjects(db, groupId, { name }, { after: null, limit: 1 })
  return project ?? null
}

/**
 * Describes the lock file of an environment as a CycloneDX 1.6 document in JSON. Null when there is no such project or
 * environment.
 */
export async function describeSbom(
  db: Queryable,
  group: { id: string; name: string },
  { project, environment }: Omit<LockPlace, 'commit'>,
): Promise<string | null> {
  const { rows } = await db.query<Omit<SbomSubject, 'postedAt'> & { postedAt: Date }>(
    `select j.name as project, $4::text as "group", l.commit_id as commit, l.posted_at as "postedAt",
            (select coalesce(jsonb_agg(jsonb_build_object('name', p.name, 'version', p.version, 'entry', p.entry,
                                                          'isDev', p.id = any(l.dev_packages)) order by p.name), '[]')
               from locked_package p where p.id = any(l.packages)) as packages
       from project j join project_lock l on l.project_id = j.id
      where j.group_id = $1 and j.name = $2 and l.environment = $3`,
    [group.id, project, environment, group.name],
  )
  const [lock] = rows
  if (!lock) return null
  const sbom = { ...lock, postedAt: lock.postedAt.getTime() }
  return threads.run<string>({ sbom }, { milliseconds: readMilliseconds, owner: group.id })
}

/** Describes a project for the API and `--json`. */
export function describeProject({ name, createdAt, locks }: Project) {
  return {
    project: name,
    created_at: createdAt.toISOString(),
    locks: locks.map(
      ({ environment, commit, postedAt, postedBy, packages, version, problems, affected }) => ({
        environment,
        commit,
        posted_at: postedAt.toISOString(),
        posted_by: postedBy,
        packages,
        version,
        problems,
        affected,
      }),
    ),
  }
}

/** Deletes a project with its locks and findings, and writes the event. Returns false when there is none. */
export async function deleteProject(
  db: pg.Pool,
  by: Principal,
  groupId: string,
  name: string,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const { rowCount } = await tx.query('delete from project where group_id = $1 and name = $2', [
      groupId,
      name,
    ])
    if (rowCount !== 1) return false
    await insertEvent(tx, by, {
      groupId,
      action: 'delete-project',
      details: { project: name },
    })
    return true
  })
}

async function listFindings(
  db: Queryable,
  { projectId, environment }: { projectId: string; environment: string },
): Promise<Finding[]> {
  const { rows } = await db.query<{ finding: Finding }>(
    `select ${findingJson('f')} as finding from project_finding f
      where f.project_id = $1 and f.environment = $2 and f.resolved_at is null
      order by f.package_name, f.reason, f.advisory limit $3`,
    [projectId, environment, maxFindings],
  )
  return rows.map(({ finding }) => finding)
}

function invalid(errmsg: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg)
}
