import { toLowerAscii } from '../composer/package-name.ts'
import { matchesGlob } from '../domain/glob.ts'
import { cleanLine } from '../domain/plain-text.ts'
import type { PublisherRightName, PublisherRun } from '../domain/publisher.ts'

/** The kinds of trusted publishers. `claims` is for every other issuer: its conditions name the claims. */
export const publisherProviders = ['github', 'gitlab', 'forgejo', 'claims'] as const
export type PublisherProvider = (typeof publisherProviders)[number]

/** The issuer of each provider, if a publisher names none. */
export const defaultIssuers: Record<Exclude<PublisherProvider, 'claims'>, string> = {
  github: 'https://token.actions.githubusercontent.com',
  gitlab: 'https://gitlab.com',
  forgejo: 'https://codeberg.org/api/actions',
}

/** A condition for a claim. `*` matches any characters within the value. */
export interface ClaimCondition {
  name: string
  value: string
}

/** Which CI jobs a trusted publisher trusts. */
export interface PublisherTerms {
  provider: PublisherProvider
  /** Compared exactly. */
  issuer: string
  /** `owner/name` or `group/sub/name`, compared without case. Null only for `claims`. */
  project: string | null
  /** The name of the workflow's file, compared exactly. */
  workflow: string | null
  /** Compared without case. */
  environment: string | null
  /** The project of a called reusable workflow. */
  workflowProject: string | null
  claims: readonly ClaimCondition[]
  right: PublisherRightName
  /** The ids of the project at the first exchange. Empty before it. */
  pins: Readonly<Record<string, string>>
}

/** The claims of an identity token. The type does not say whether its signature has been checked. */
export type Claims = Readonly<Record<string, unknown>>

/** A claim that is not as the publisher expects it. `given` is null when the token does not have it. */
export interface ClaimDifference {
  claim: string
  expected: string
  given: string | null
}

/** What a comparison of a publisher with an identity token has shown. */
export interface ClaimComparison {
  /** Whether the token comes from the publisher's project. */
  isProject: boolean
  /** Empty when the publisher trusts the job. */
  differs: ClaimDifference[]
  /** The ids of the project, to pin at the first exchange. */
  pins: Record<string, string>
}

/** Events of GitHub and Forgejo that can run workflows for people from outside the project, or with their code. */
const foreignEvents = ['pull_request', 'pull_request_target', 'workflow_run', 'issue_comment']

/**
 * Compares what a publisher expects with the claims of a token. Unknown claims are ignored, and `sub` is never parsed: each
 * issuer writes it differently, and its owners can change its form.
 */
export function compareClaims(terms: PublisherTerms, claims: Claims): ClaimComparison {
  const job = { read: (name: string) => claimText(claims[name]), differs: [] as ClaimDifference[] }
  const { project, own, pinned, needsPins } = presets[terms.provider](terms)
  for (const condition of project) requireClaim(job, condition)
  const isProject = job.differs.length === 0
  for (const condition of own) requireClaim(job, condition)
  for (const { name, value } of terms.claims) {
    if (project.some((condition) => condition.claim === name)) continue
    requireClaim(job, { claim: name, expected: value, accepts: (given) => matchesGlob(value, given) })
  }
  return { isProject, differs: job.differs, pins: comparePins(job, terms.pins, { pinned, needsPins }) }
}

/**
 * Compares what a publisher expects with the claims that a certificate of Fulcio repeats (see `claimsOfCertificate`). It has
 * not all claims of an identity token. The other conditions are left out: the identity token of the upload has matched them.
 * The conditions of the provider `claims` must all be in the certificate, because nothing else names the project.
 */
export function compareCertificate(publisher: PublisherTerms, claims: Claims): ClaimDifference[] {
  const { provider, issuer } = publisher
  const other = { claim: 'iss', expected: issuer, given: claimText(claims['iss']) }
  const { isProject, differs } = compareClaims(publisher, claims)
  const isComplete = provider === 'claims' || !isProject
  const said = differs.filter(({ claim, given }) => isComplete || given !== null || claim in claims)
  return other.given === issuer ? said : [other, ...said]
}

interface Job {
  read: (claim: string) => string | null
  differs: ClaimDifference[]
}

/** What a claim must be. */
interface Condition {
  claim: string
  expected: string
  accepts: (given: string, read: Job['read']) => boolean
  /** Whether a token without the claim is accepted. */
  isOptional?: boolean
}

interface Preset {
  /** The conditions that say which project it is. */
  project: Condition[]
  own: Condition[]
  /** The claims with the ids of the project. */
  pinned: readonly string[]
  needsPins: boolean
}

function requireClaim(job: Job, { claim, expected, accepts, isOptional = false }: Condition): void {
  const given = job.read(claim)
  if (given === null ? isOptional : accepts(given, job.read)) return
  job.differs.push({ claim, expected, given })
}

/** Compares the ids of the project with the pinned ones. Returns those of the token. */
function comparePins(
  job: Job,
  known: PublisherTerms['pins'],
  { pinned, needsPins }: Pick<Preset, 'pinned' | 'needsPins'>,
): Record<string, string> {
  const pins: Record<string, string> = {}
  for (const claim of pinned) {
    const given = job.read(claim)
    const expected = known[claim]
    if (given !== null) pins[claim] = given
    if (expected === undefined ? given === null && needsPins : given !== expected)
      job.differs.push({ claim, expected: expected ?? 'the id of the project', given })
  }
  return pins
}

/** Returns the text of a claim. Numbers and booleans count as their texts. Null for everything else. */
export function claimText(value: unknown): string | null {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : null
}

function isSame(one: string, other: string): boolean {
  return toLowerAscii(one) === toLowerAscii(other)
}

const presets: Record<PublisherProvider, (terms: PublisherTerms) => Preset> = {
  github: (terms) => ofActions(terms, { folder: '.github/workflows', needsPins: true }),
  forgejo: (terms) => ofActions(terms, { folder: '.forgejo/workflows', needsPins: false }),
  gitlab: ofGitLab,
  claims: ofClaims,
}

/** The project, the folder and the file in `owner/name/.github/workflows/release.yml@refs/heads/main`. */
const workflowRef =
  /^([^/@]+\/[^/@]+)\/(\.(?:github|forgejo|gitea)\/workflows|dynamic\/[\w.-]+)\/([^/@]+)@(.+)$/
/** What follows the file: a full ref or a commit. The name of a file can have an @, too. */
const fullRef = /^(?:refs\/|[\da-f]{40})/

/** GitHub Actions, and Forgejo Actions, whose claims have the same names. */
function ofActions(
  terms: PublisherTerms,
  { folder, needsPins }: { folder: string; needsPins: boolean },
): Preset {
  const { project: name, workflow, right, workflowProject } = terms
  const project = name ?? ''
  const conditions: Condition[] = [
    {
      claim: 'workflow_ref',
      expected: `${project}/${folder}/${workflow ?? '*'}@*`,
      accepts(given) {
        const [, owner = '', , file = '', ref = ''] = workflowRef.exec(given) ?? []
        return isSame(owner, project) && (workflow === null || file === workflow) && fullRef.test(ref)
      },
    },
    // It is the called workflow, or the same as workflow_ref when none is called.
    {
      claim: 'job_workflow_ref',
      expected: [project, workflowProject]
        .filter((one) => one !== null)
        .map((one) => `${one}/${folder}/*`)
        .join(' or '),
      accepts(given) {
        const [, owner = ''] = workflowRef.exec(given) ?? []
        return isSame(owner, project) || (workflowProject !== null && isSame(owner, workflowProject))
      },
      isOptional: true,
    },
    ...environmentOf(terms),
  ]
  if (right !== 'read') {
    conditions.push({
      claim: 'event_name',
      expected: `none of ${foreignEvents.join(', ')}`,
      accepts: (given) => !foreignEvents.includes(given),
      isOptional: true,
    })
  }
  return {
    project: [equal('repository', project)],
    own: conditions,
    pinned: ['repository_id', 'repository_owner_id'],
    needsPins,
  }
}

/** The host, the project and the file in `gitlab.example.com/group/name//.gitlab-ci.yml@refs/heads/main`. */
const configRef = /^([^/]+)\/(.+?)\/\/([^@]+)@(.+)$/

function ofGitLab(terms: PublisherTerms): Preset {
  const { project: name, workflow, workflowProject, right, claims, issuer } = terms
  const project = name ?? ''
  const conditions: Condition[] = [
    {
      claim: 'ci_config_ref_uri',
      expected: [project, workflowProject]
        .filter((one) => one !== null)
        .map((one) => `${new URL(issuer).host}/${one}//${workflow ?? '*'}@*`)
        .join(' or '),
      accepts(given) {
        const [, , path = '', file = '', ref = ''] = configRef.exec(given) ?? []
        // An instance below a path has the path in front of the project.
        const root = new URL(issuer).pathname.replace(/^\//, '').replace(/\/*$/, '/')
        const owner = root !== '/' && path.startsWith(root) ? path.slice(root.length) : path
        const isOwn = isSame(owner, project) || (workflowProject !== null && isSame(owner, workflowProject))
        return isOwn && (workflow === null || (file === workflow && fullRef.test(ref)))
      },
    },
    ...environmentOf(terms),
  ]
  conditions.push({
    claim: 'job_project_id',
    expected: 'the same as project_id',
    accepts: (given, read) => given === read('project_id'),
    isOptional: true,
  })
  // A publisher that has its own condition for it decides by that one.
  if (right !== 'read' && !claims.some((condition) => condition.name === 'ref_protected'))
    conditions.push({ claim: 'ref_protected', expected: 'true', accepts: (given) => given === 'true' })
  return {
    project: [equal('project_path', project)],
    own: conditions,
    pinned: ['project_id', 'namespace_id'],
    needsPins: true,
  }
}

function ofClaims({ claims }: PublisherTerms): Preset {
  const project = projectConditionOf(claims)
  const condition: Condition = {
    claim: project?.name ?? 'project',
    expected: project?.value ?? 'the name of a project',
    accepts: (given) => given === project?.value,
  }
  return { project: [condition], own: [], pinned: [], needsPins: false }
}

/** The claims that name a project in the tokens of most CIs, the surest first. */
const projectClaims = [/^(?:repository|project_path|project)$/, /^(?:repository|project)_id$/, /_id$/, /^/]
/** The claims that have the same value in many projects. */
const sharedClaims = [
  /^(?:iss|aud|workflow|event_name|pipeline_source|deployment_tier)$/,
  /^(?:(?:base|head|build|source|target|git)_)?(?:ref|branch|tag)(?:_\w+)?$/,
  /^(?:environment|actor|user|owner|repository_owner|namespace|organization|runner)(?:_\w+)?$/,
]

/**
 * Returns the condition without `*` that names the project of a publisher of the kind `claims`: a well-known name of a
 * project, else an id, else the first one. A claim that many projects share, such as `ref`, names none: a token that meets
 * the condition learns that the repository exists. Undefined when no condition names a project.
 */
export function projectConditionOf(claims: readonly ClaimCondition[]): ClaimCondition | undefined {
  const exact = claims.filter(
    ({ name, value }) => !value.includes('*') && !sharedClaims.some((pattern) => pattern.test(name)),
  )
  return projectClaims.flatMap((pattern) => exact.filter(({ name }) => pattern.test(name)))[0]
}

function equal(claim: string, expected: string): Condition {
  return { claim, expected, accepts: (given) => isSame(given, expected) }
}

function environmentOf({ environment }: PublisherTerms): Condition[] {
  return environment === null ? [] : [equal('environment', environment)]
}

/** The claims that refusals may repeat, because the holder of the token has sent them. */
const shownClaims = [
  'iss',
  'repository',
  'project_path',
  'workflow_ref',
  'job_workflow_ref',
  'ci_config_ref_uri',
  'environment',
  'event_name',
  'ref',
]

/** Describes the claims of a token that matter to publishers, in one line. */
export function describeClaims(claims: Claims): string {
  return shownClaims
    .flatMap((name) => {
      const given = claimText(claims[name])
      return given === null ? [] : [`${name}=${given.slice(0, 300)}`]
    })
    .join('; ')
}

/** Returns the job of a token, as versions and events name it. */
export function runOf(
  { provider, issuer, claims: conditions }: PublisherTerms,
  claims: Claims,
): PublisherRun {
  const read = (name: string) => {
    const text = claimText(claims[name])
    return text === null ? null : cleanLine(text.slice(0, 500))
  }
  const common = { provider, ref: read('ref'), commit: read('sha') }
  if (provider === 'claims') {
    const project = projectConditionOf(conditions)
    return { ...common, project: project ? read(project.name) : null, workflow: null, url: null }
  }
  if (provider === 'gitlab') {
    const project = read('project_path')
    const [, , , workflow = null] = configRef.exec(read('ci_config_ref_uri') ?? '') ?? []
    const ref = read('ref_path') ?? common.ref
    const url = urlOf(siteOfIssuer(provider, issuer), project, '/-/pipelines/', read('pipeline_id'))
    return { ...common, ref, project, workflow, url }
  }
  const project = read('repository')
  const [, , , workflow = null] = workflowRef.exec(read('workflow_ref') ?? '') ?? []
  // The URL of a run has the run's id at GitHub, and its number in the project at Forgejo.
  const run = provider === 'github' ? read('run_id') : (read('run_number') ?? read('run_id'))
  return {
    ...common,
    project,
    workflow,
    url: urlOf(siteOfIssuer(provider, issuer), project, '/actions/runs/', run),
  }
}

/** Returns the URL of the site whose CI is the issuer. It has no slash at its end. */
export function siteOfIssuer(provider: PublisherProvider, issuer: string): string {
  if (provider === 'gitlab') return issuer.replace(/\/+$/, '')
  if (provider === 'forgejo') return issuer.replace(/\/api\/actions\/?$/, '')
  const { origin, hostname } = new URL(issuer)
  if (hostname === 'token.actions.githubusercontent.com') return 'https://github.com'
  const [, subdomain] = /^token\.actions\.([\w-]+\.ghe\.com)$/.exec(hostname) ?? []
  return subdomain === undefined ? origin : `https://${subdomain}`
}

/** Returns null when a part is missing, or would not be safe in a link. */
function urlOf(site: string, project: string | null, path: string, run: string | null): string | null {
  const isSafe = /^[\w.-]+(?:\/[\w.-]+)+$/.test(project ?? '') && /^\d{1,30}$/.test(run ?? '')
  return isSafe && /^https?:\/\/[^\s"'<>]+$/.test(site) ? `${site}/${project}${path}${run}` : null
}
