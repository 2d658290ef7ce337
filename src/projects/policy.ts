import { needsDeniedLicense, readLicensePatterns } from '../composer/license-expression.ts'
import type { Queryable } from '../database/database.ts'
import { matchesGlob } from '../domain/glob.ts'
import { splitPattern } from '../upstreams/documents/patterns.ts'
import { readConstraint } from '../upstreams/documents/satisfies.ts'

/**
 * What a rule denies: packages that match its patterns, packages that need a licence that matches them, or every package that
 * matches none of them.
 */
export const policyKinds = ['packages', 'licenses', 'unapproved'] as const
export type PolicyKind = (typeof policyKinds)[number]

/** A rule about what a group's projects may install. */
export interface PolicyRule {
  id: string
  kind: PolicyKind
  /** Packages, with or without a constraint, or licences. */
  patterns: string[]
  /** What people see in Composer. */
  reason: string
}

/** Columns of a rule `p`, as JSON. */
export const policyRuleJson = `json_build_object('id', p.id::text, 'kind', p.kind, 'patterns', p.patterns, 'reason', p.reason)`

/** A version of a package, with the licences that it names. */
export interface LicensedVersion {
  name: string
  /** Empty when Composer cannot read the version, and for all versions of an upstream. */
  normalized: string
  licenses: readonly string[]
}

/** What a rule denies of a package. */
export interface Denial {
  rule: PolicyRule
  /** The versions, as Composer's parser reads them. */
  constraint: string
  /** The reason of the rule, after the licences if it is about them. */
  reason: string
}

/** The rules of a group, ready to compare them with many packages. */
export interface Policy {
  /** Returns what is denied of a package. Rules about licences deny only the known versions, or all when each is denied. */
  denialsOf(name: string, known: readonly LicensedVersion[]): Denial[]
  /** Returns the rules that deny a version, each with what to tell about it. */
  rulesAgainst(version: LicensedVersion): Omit<Denial, 'constraint'>[]
}

/** Finds the rules of a group. */
export async function findPolicyOfGroup(db: Queryable, groupId: string): Promise<Policy> {
  const { rows } = await db.query<{ rule: PolicyRule }>(
    `select ${policyRuleJson} as rule from policy_rule p where p.group_id = $1 order by p.id`,
    [groupId],
  )
  return readPolicy(rows.map(({ rule }) => rule))
}

/** Reads the rules of a group, the oldest first. */
export function readPolicy(rules: readonly PolicyRule[]): Policy {
  const read = rules.map((rule) => ({ rule, ...readers[rule.kind](rule) }))
  return {
    denialsOf: (name, known) =>
      read.flatMap(({ rule, denied }) => denied(name, known).map((denial) => ({ rule, ...denial }))),
    rulesAgainst: (version) =>
      read.flatMap(({ rule, denies }) => {
        const reason = denies(version)
        return reason === null ? [] : [{ rule, reason }]
      }),
  }
}

interface RuleReader {
  denied: (name: string, known: readonly LicensedVersion[]) => Omit<Denial, 'rule'>[]
  /** Returns why the rule denies a version. Null when it does not. */
  denies: (version: LicensedVersion) => string | null
}

const readers: Record<PolicyKind, (rule: PolicyRule) => RuleReader> = {
  packages({ patterns, reason }) {
    const constraintsOf = readNames(patterns)
    const tests = new Map<string, (normalized: string) => boolean>()
    const satisfies = (normalized: string, constraint: string) => {
      const test = tests.get(constraint) ?? readConstraint(constraint)
      tests.set(constraint, test)
      return normalized !== '' && test(normalized)
    }
    return {
      denied(name) {
        const constraints = constraintsOf(name)
        if (constraints.length === 0) return []
        const isWhole = constraints.includes(null)
        return [{ constraint: isWhole ? '*' : joinConstraints(constraints), reason }]
      },
      denies: ({ name, normalized }) =>
        constraintsOf(name).some((constraint) => constraint === null || satisfies(normalized, constraint))
          ? reason
          : null,
    }
  },
  unapproved({ patterns, reason }) {
    const constraintsOf = readNames(patterns)
    return {
      denied: (name) => (constraintsOf(name).length === 0 ? [{ constraint: '*', reason }] : []),
      denies: ({ name }) => (constraintsOf(name).length === 0 ? reason : null),
    }
  },
  licenses({ patterns, reason }) {
    const isDenied = readLicensePatterns(patterns)
    const denies = ({ licenses }: LicensedVersion) =>
      needsDeniedLicense(licenses, isDenied) ? `${wordsOf(licenses)}: ${reason}` : null
    return {
      denied(_name, known) {
        const judged = known.map((version) => ({ ...version, because: denies(version) }))
        const denied = judged.filter(({ because }) => because !== null)
        const [first] = denied
        if (!first) return []
        // A later version hardly ever has another licence.
        const isWhole = denied.length === judged.length
        const named = [...new Set(denied.map(({ normalized }) => normalized))].filter((one) => one !== '')
        if (!isWhole && named.length === 0) return []
        return [
          {
            constraint: isWhole ? '*' : joinConstraints(named.map((normalized) => `==${normalized}`)),
            reason: first.because as string,
          },
        ]
      },
      denies,
    }
  },
}

/** Returns the constraint of the versions that satisfy one of these. */
export function joinConstraints(constraints: readonly (string | null)[]): string {
  return constraints.join(' || ')
}

function wordsOf(licenses: readonly string[]): string {
  return licenses.length === 0 ? 'no licence' : licenses.join(' or ')
}

/**
 * Returns a function that returns the constraints of the patterns that match a name, null for a pattern without one. Most
 * patterns are names, or all packages of a vendor, and are looked up.
 */
function readNames(patterns: readonly string[]): (name: string) => (string | null)[] {
  const [names, vendors] = [new Map<string, (string | null)[]>(), new Map<string, (string | null)[]>()]
  const others: { glob: string; constraint: string | null }[] = []
  for (const pattern of patterns) {
    const { name, constraint } = splitPattern(pattern)
    const vendor = /^([^*]+)\/\*$/.exec(name)?.[1]
    if (vendor !== undefined) vendors.set(vendor, [...(vendors.get(vendor) ?? []), constraint])
    else if (name.includes('*')) others.push({ glob: name, constraint })
    else names.set(name, [...(names.get(name) ?? []), constraint])
  }
  return (name) => [
    ...(names.get(name) ?? []),
    ...(vendors.get(name.slice(0, name.indexOf('/'))) ?? []),
    ...others.filter(({ glob }) => matchesGlob(glob, name)).map(({ constraint }) => constraint),
  ]
}
