import type pg from 'pg'
import { maxConstraintLength } from '../composer/constraint.ts'
import { accountName } from '../database/account-name.ts'
import { type Queryable, transaction } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import { isPlainText } from '../domain/plain-text.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { readRowId } from '../domain/row-id.ts'
import { makePause } from '../domain/time-slices.ts'
import { detailsOfChange, insertEvent } from '../events/events.ts'
import { requireLivePrincipal } from '../groups/live-principal.ts'
import { isPattern, splitPattern } from '../upstreams/documents/patterns.ts'
import { queueGroupCheck } from './check-projects.ts'
import {
  joinConstraints,
  type LicensedVersion,
  type PolicyKind,
  type PolicyRule,
  policyKinds,
  readPolicy,
} from './policy.ts'

/** What a rule says. */
export type PolicyDraft = Omit<PolicyRule, 'id'>

/** A rule of a group, for its admins and members. */
export interface StoredPolicyRule extends PolicyRule {
  /** The account that made it. Null for the command line, `deleted account` after that account was deleted. */
  madeBy: string | null
  createdAt: Date
  changedAt: Date
}

/** How many rules a group can have, and how many patterns they have together. Each package is compared with all of them. */
export const maxPolicyRules = 100
const maxGroupPatterns = 2_000
export const maxPolicyPatterns = 500
export const maxPolicyReason = 300
/** How much of what a rule would break is counted, and how much is listed. */
export const maxPolicyBroken = 10_000
const maxListed = 500

/**
 * Adds a rule to a group, and writes the event. A job compares the lock files of the group with it. Returns its id. Throws errcode
 * 3 for a rule that is not allowed, and 8 when the group has too many.
 */
export async function addPolicyRule(
  db: pg.Pool,
  { groupId, by }: { groupId: string; by: Principal },
  draft: PolicyDraft,
): Promise<string> {
  const rule = await readDraft(draft)
  return transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    await requireRoom(tx, groupId, rule.patterns.length)
    const { rows } = await tx.query<{ id: string }>(
      `insert into policy_rule (group_id, kind, patterns, reason, made_by) values ($1, $2, $3, $4, $5) returning id`,
      [groupId, rule.kind, rule.patterns, rule.reason, by.accountId],
    )
    const { id } = rows[0] as { id: string }
    await noteChange(tx, by, groupId, 'add-policy', { rule: Number(id), ...shown(rule) })
    return id
  })
}

/**
 * Changes patterns and reason of a rule, and writes the event. Returns false when the group has no such rule. Throws errcode 3 and
 * 8 as `addPolicyRule` does.
 */
export async function changePolicyRule(
  db: pg.Pool,
  { groupId, id, by }: { groupId: string; id: string; by: Principal },
  changes: Partial<Pick<PolicyDraft, 'patterns' | 'reason'>>,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    // The group first, as in an insert.
    await requireRoom(tx, groupId, changes.patterns?.length ?? 0, id)
    const former = await findPolicyRule(tx, groupId, id)
    if (!former) return false
    const { kind } = former
    const { patterns = former.patterns, reason = former.reason } = changes
    const rule = await readDraft({ kind, patterns, reason })
    const isSame =
      JSON.stringify([rule.patterns, rule.reason]) === JSON.stringify([former.patterns, former.reason])
    if (isSame) return true
    await tx.query('update policy_rule set patterns = $2, reason = $3, changed_at = now() where id = $1', [
      id,
      rule.patterns,
      rule.reason,
    ])
    const details = { rule: Number(id), kind, ...detailsOfChange(shown(former), shown(rule)) }
    await noteChange(tx, by, groupId, 'change-policy', details)
    return true
  })
}

/** Removes a rule, and writes the event. A job resolves what only this rule denied. Returns false when the group has no such rule. */
export async function removePolicyRule(
  db: pg.Pool,
  { groupId, id, by }: { groupId: string; id: string; by: Principal },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    const { rows } = await tx.query<PolicyDraft>(
      'delete from policy_rule where id = $1 and group_id = $2 returning kind, patterns, reason',
      [readRowId(id), groupId],
    )
    const [removed] = rows
    if (!removed) return false
    await noteChange(tx, by, groupId, 'remove-policy', { rule: Number(id), ...shown(removed) })
    return true
  })
}

const columns = `p.id, p.kind, p.patterns, p.reason, ${accountName('p.made_by')} as "madeBy",
  p.created_at as "createdAt", p.changed_at as "changedAt"`

/** Lists the rules of a group, the oldest first. `after` is the id of one of them. There are at most 100. */
export async function listPolicyRules(
  db: Queryable,
  groupId: string,
  { after, limit }: ListPart,
): Promise<StoredPolicyRule[]> {
  const { rows } = await db.query<StoredPolicyRule>(
    `select ${columns} from policy_rule p
      where p.group_id = $1 and ($2::bigint is null or p.id > $2)
      order by p.id limit $3`,
    [groupId, readRowId(after), limit],
  )
  return rows
}

/** Finds a rule of a group. Null when there is none. */
export async function findPolicyRule(
  db: Queryable,
  groupId: string,
  id: string,
): Promise<StoredPolicyRule | null> {
  const { rows } = await db.query<StoredPolicyRule>(
    `select ${columns} from policy_rule p where p.id = $1 and p.group_id = $2`,
    [readRowId(id), groupId],
  )
  return rows[0] ?? null
}

/** Describes a rule for the API and `--json`. */
export function describePolicyRule(rule: StoredPolicyRule) {
  return {
    id: Number(rule.id),
    kind: rule.kind,
    patterns: rule.patterns,
    reason: rule.reason,
    made_by: rule.madeBy,
    created_at: rule.createdAt.toISOString(),
    changed_at: rule.changedAt.toISOString(),
  }
}

/** A locked package that a rule denies. */
export interface BrokenPackage {
  project: string
  environment: string
  package: string
  version: string
}

/** What a rule denies of the lock files of a group. */
export interface BrokenProjects {
  /** How many projects have such a package, and how many packages of environments there are: 10,000 are counted. */
  projects: number
  count: number
  /** The first 500 of those by project, environment and package. */
  broken: BrokenPackage[]
}

/** Returns what a rule would deny of the lock files that a group has now. Throws errcode 3 for a rule that is not allowed. */
export async function checkPolicyRule(
  db: Queryable,
  groupId: string,
  draft: PolicyDraft,
): Promise<BrokenProjects> {
  const policy = readPolicy([{ id: '', ...(await readDraft(draft)) }])
  const { rows: locked } = await db.query<LicensedVersion & { id: number }>(
    `select p.id, p.name, p.normalized, coalesce(p.entry -> 'licenses', '[]') as licenses
       from group_locked_package n join locked_package p on p.id = n.package_id where n.group_id = $1`,
    [groupId],
  )
  const pause = makePause()
  const denied: number[] = []
  for (const one of locked) {
    await pause()
    if (policy.rulesAgainst(one).length > 0) denied.push(one.id)
  }
  const { rows } = await db.query<BrokenProjects>(
    `with found as materialized (
       select j.name as project, l.environment, p.name as package, p.version
         from unnest($2::integer[]) as d (id)
         join locked_package p on p.id = d.id
         join project_lock l on l.packages @> array[d.id]
         join project j on j.id = l.project_id
        where j.group_id = $1 limit ${maxPolicyBroken}
     )
     select count(distinct f.project)::int as projects, count(*)::int as count,
            (select coalesce(jsonb_agg(b), '[]')
               from (select * from found order by project, environment, package limit ${maxListed}) b) as broken
       from found f`,
    [groupId, denied],
  )
  return rows[0] as BrokenProjects
}

/** Returns a rule as it is stored. Throws errcode 3. */
async function readDraft({ kind, patterns, reason }: PolicyDraft): Promise<PolicyDraft> {
  if (!policyKinds.includes(kind)) throw invalid(`the kind must be one of ${policyKinds.join(', ')}`)
  const trimmed = [...new Set(patterns.map((pattern) => pattern.trim()).filter((pattern) => pattern !== ''))]
  if (trimmed.length === 0 || trimmed.length > maxPolicyPatterns)
    throw invalid(`a rule needs 1 to ${maxPolicyPatterns} ${kind === 'licenses' ? 'licences' : 'packages'}`)
  const words = reason.trim()
  if (words === '' || Array.from(words).length > maxPolicyReason || !isPlainText(words))
    throw invalid(
      `the reason must be one line of 1 to ${maxPolicyReason} characters: people see it in Composer`,
    )
  return { kind, patterns: await readers[kind](trimmed), reason: words }
}

const readers: Record<PolicyKind, (patterns: string[]) => string[] | Promise<string[]>> = {
  packages: (patterns) => requireShortConstraints(patterns.map(readPackagePattern)),
  unapproved: (patterns) =>
    patterns.map((pattern) => {
      const read = readPackagePattern(pattern)
      if (splitPattern(read).constraint === null) return read
      throw invalid(
        `${JSON.stringify(pattern)} has a constraint: packages are approved as a whole. Deny versions with a rule about packages`,
      )
    }),
  licenses: readLicenses,
}

function readPackagePattern(pattern: string): string {
  const { name, constraint } = splitPattern(pattern)
  const read = constraint === null ? name.toLowerCase() : `${name.toLowerCase()}:${constraint.trim()}`
  if (isPattern(read)) return read
  throw invalid(
    `${JSON.stringify(pattern)} is no pattern of packages: write acme/lib, acme/*, or acme/lib:<2.0 with a constraint`,
  )
}

/** Returns the patterns. Refuses those of one name whose constraints are too long together: Composer gets them as one. */
function requireShortConstraints(patterns: string[]): string[] {
  const constraints = new Map<string, string[]>()
  for (const pattern of patterns) {
    const { name, constraint } = splitPattern(pattern)
    if (constraint === null) continue
    const its = constraints.get(name)
    if (its) its.push(constraint)
    else constraints.set(name, [constraint])
  }
  for (const [name, its] of constraints)
    if (joinConstraints(its).length > maxConstraintLength)
      throw invalid(
        `the constraints of ${JSON.stringify(name)} have more than ${maxConstraintLength} characters together: write fewer or shorter ones`,
      )
  return patterns
}

/** Writes the names of licences as SPDX does. An unknown name would silently deny nothing. */
async function readLicenses(patterns: string[]): Promise<string[]> {
  // The list of all licences is large, and few rules need it.
  const { SPDX } = await import('@cyclonedx/cyclonedx-library')
  return patterns.map((pattern) => {
    if (/^[a-z0-9][a-z0-9.+-]{0,99}\*$/i.test(pattern)) return pattern
    if (/^LicenseRef-[a-z0-9.-]{1,100}$/i.test(pattern)) return pattern
    const known = ['NONE', 'proprietary'].find((one) => one.toLowerCase() === pattern.toLowerCase())
    const license = known ?? SPDX.fixupSpdxId(pattern)
    if (license !== undefined) return license
    throw invalid(
      `${JSON.stringify(pattern)} is no licence of SPDX: write GPL-3.0-only, GPL-* for all that begin so, proprietary, or NONE for packages without one`,
    )
  })
}

/** Locks the group, and refuses more rules or patterns than it may have. `changed` is a rule whose patterns are replaced. */
async function requireRoom(
  tx: pg.PoolClient,
  groupId: string,
  more: number,
  changed: string | null = null,
): Promise<void> {
  await tx.query('select from repository_group where id = $1 for no key update', [groupId])
  const { rows } = await tx.query<{ rules: number; patterns: number }>(
    `select count(*)::int as rules, coalesce(sum(cardinality(patterns)), 0)::int as patterns
       from policy_rule where group_id = $1 and id is distinct from $2`,
    [groupId, readRowId(changed)],
  )
  const { rules = 0, patterns = 0 } = rows[0] ?? {}
  if (rules >= maxPolicyRules) throw tooMany(`a group can have at most ${maxPolicyRules} rules: remove one`)
  if (patterns + more > maxGroupPatterns)
    throw tooMany(`the rules of a group can have at most ${maxGroupPatterns} packages and licences together`)
}

/** Writes the event of a change, and queues the comparison of the lock files. */
async function noteChange(
  tx: pg.PoolClient,
  by: Principal,
  groupId: string,
  action: 'add-policy' | 'change-policy' | 'remove-policy',
  details: Record<string, unknown>,
): Promise<void> {
  await insertEvent(tx, by, { action, groupId, details })
  await queueGroupCheck(tx, groupId)
}

/** Returns a rule as events show it. An event must stay small. */
function shown({ kind, patterns, reason }: PolicyDraft): PolicyDraft {
  const more = patterns.length > 5 ? [`and ${patterns.length - 5} more`] : []
  return { kind, patterns: [...patterns.slice(0, 5), ...more], reason }
}

function invalid(errmsg: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg)
}

function tooMany(errmsg: string): Refusal {
  return new Refusal(errcode.resourceExhausted, errmsg, { status: 403 })
}
