import type { FastifyInstance, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import { isPackageName } from '../../../composer/package-name.ts'
import type { Queryable } from '../../../database/database.ts'
import { pageOf } from '../../../domain/paging.ts'
import type { RepositoryAct } from '../../../domain/permissions.ts'
import type { Principal } from '../../../domain/principal.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { type AffectedVersion, findAffectedVersions } from '../../../packages/affected-versions.ts'
import {
  maxQuarantineReasonCharacters,
  QuarantineReason,
} from '../../../packages/lifecycle/advisory-draft.ts'
import type { PackageChange, VersionChange } from '../../../packages/lifecycle/change.ts'
import { deleteVersion, restoreVersion } from '../../../packages/lifecycle/deletion.ts'
import { refuseUnreviewed, setReleaseRule } from '../../../packages/lifecycle/release-rule.ts'
import { setOnlyTrustedPublishers } from '../../../packages/lifecycle/trusted-only.ts'
import { liftQuarantine, quarantineVersion, setAbandoned } from '../../../packages/lifecycle/warn.ts'
import { findPackageSummary, type PackageSummary } from '../../../packages/tables/listed-packages.ts'
import { findVersion, type ListedVersion, listVersions } from '../../../packages/tables/listed-versions.ts'
import { listAdvisories } from '../../../packages/tables/package-warnings.ts'
import { isReviewed } from '../../../packages/tables/staged-versions.ts'
import { cautionForLimit } from '../../../publishers/trusted-publishers.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { confirmationPage, nobody, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { may, type PagesContext, permittedRepository } from '../permit.ts'
import { findAnyPackage } from './any-package.ts'
import type { MirrorPages } from './mirror-pages.ts'
import { listDeleters } from './missing-version.ts'
import {
  listWaiting,
  type PackageRoute,
  type PackageStages,
  type PackageView,
  packagePath,
  viewOf,
} from './package-view.ts'

const versionsPerPage = 60

const versionsPage = page<
  PackageView & {
    versions: ListedVersion[]
    waiting: PackageStages
    /** Who deleted or purged versions, by the ids of the versions. */
    deleters: Map<string, string>
    /** By the ids of the versions. Null when there are too many advisories to compare. */
    affected: Map<string, AffectedVersion> | null
    mayDelete: boolean
    mayManage: boolean
    isContinued: boolean
    next: string | null
  }
>('pages/versions')
const abandonPage = page<PackageView & { replacement: string; problem: string | null }>('pages/abandon')

type Route = PackageRoute

/** A change of one version: the required role, the question on the page, and the function that makes the change. */
interface VersionAct {
  act: RepositoryAct
  title: (version: string) => string
  explanation: string
  button: string
  done: (version: string) => string
  /** What differs for a version that is quarantined too. */
  ifQuarantined?: { explanation: string; done: (version: string) => string }
  asksReason?: true
  run: (pool: PagesContext['changes'], change: VersionChange, reason: string) => Promise<void>
}

/** The roles are those of the API: people who may push can quarantine, and only admins can release (CONTRACT 6.5). */
const versionActs: Record<'delete' | 'restore' | 'quarantine' | 'release', VersionAct> = {
  delete: {
    act: 'deletePackage',
    title: (version) => `Delete version ${version}?`,
    explanation:
      'Composer no longer finds the version. Lock files can still install it, and its number stays taken. You can restore it from its menu until an admin purges it.',
    button: 'Delete',
    done: (version) => `Version ${version} deleted.`,
    run: deleteVersion,
  },
  restore: {
    act: 'restorePackage',
    title: (version) => `Restore version ${version}?`,
    explanation: 'Composer finds the version again.',
    button: 'Restore',
    done: (version) => `Version ${version} restored.`,
    ifQuarantined: {
      explanation: 'The version is quarantined, so Composer finds it again only when its quarantine ends.',
      done: (version) => `Version ${version} restored. It is quarantined, so Composer does not find it.`,
    },
    run: restoreVersion,
  },
  quarantine: {
    act: 'push',
    title: (version) => `Quarantine version ${version}?`,
    explanation:
      'No client can install the version, not even from a lock file. Only an admin can release it again.',
    button: 'Quarantine',
    done: (version) => `Version ${version} is quarantined.`,
    asksReason: true,
    run: quarantineVersion,
  },
  release: {
    act: 'liftQuarantine',
    title: (version) => `Release version ${version} from quarantine?`,
    explanation: 'Clients can install the version again.',
    button: 'Release',
    done: (version) => `Version ${version} is no longer quarantined.`,
    run: liftQuarantine,
  },
}

/** A change of a setting of a package: the question on the page, and the function that makes the change. */
interface SettingQuestion {
  act: RepositoryAct
  title: (name: string) => string
  explanation: string
  button: string
  /** Whether nothing is lost by it, so that its button is not red. */
  isSafe?: true
  /** What the person should know before, in this repository. Null for nothing. */
  caution?: (db: Queryable, change: PackageChange) => Promise<string | null>
  done: (name: string) => string
  run: (pool: PagesContext['changes'], change: PackageChange) => Promise<void>
}

/** Changes of how versions of a package come into the repository. */
const settingQuestions: Record<string, SettingQuestion> = {
  maintain: {
    act: 'push',
    title: (name) => `Mark ${name} as maintained?`,
    explanation: 'Composer no longer warns that the package is abandoned. Its replacement is forgotten.',
    button: 'Mark as maintained',
    isSafe: true,
    done: (name) => `Package ${name} is marked as maintained.`,
    run: (pool, change) => setAbandoned(pool, change, null),
  },
  review: {
    act: 'manage',
    title: (name) => `Review the releases of ${name}?`,
    explanation:
      'From now on, each upload waits on the page Staged of the repository until a developer releases it with a second factor.',
    button: 'Review releases',
    isSafe: true,
    done: (name) => `Releases of ${name} are reviewed.`,
    run: (pool, change) => setReleaseRule(pool, change, 'reviewed'),
  },
  'end-review': {
    act: 'endReviews',
    title: (name) => `Publish versions of ${name} without a review?`,
    explanation:
      'An upload publishes the version at once, if releases of the repository are not reviewed. Versions that are staged stay so.',
    button: 'End the review',
    done: (name) => `Releases of ${name} are no longer reviewed.`,
    run: (pool, change) => setReleaseRule(pool, change, 'direct'),
  },
  'only-trusted-publishers': {
    act: 'limitPublishers',
    title: (name) => `Let only trusted publishers publish ${name}?`,
    explanation:
      'Versions then come only from the CI jobs that this repository trusts. Nobody uploads, imports or restores a version, not even an admin. People still release what a trusted publisher has staged.',
    button: 'Only trusted publishers',
    isSafe: true,
    caution: cautionForLimit,
    done: (name) => `Only trusted publishers publish ${name}.`,
    run: (pool, change) => setOnlyTrustedPublishers(pool, change, true),
  },
  'end-only-trusted-publishers': {
    act: 'limitPublishers',
    title: (name) => `Let people publish ${name} again?`,
    explanation:
      'Everybody who may publish in this repository can then upload a version, also with a stored token.',
    button: 'Let people publish',
    done: (name) => `People may publish ${name} again.`,
    run: (pool, change) => setOnlyTrustedPublishers(pool, change, false),
  },
}

const VersionsQuery = z.object({ after: text })
const VersionForm = z.object({ version: text, reason: text.transform((reason) => reason.trim()) })
const AbandonForm = z.object({
  replacement: text.transform((name) => name.trim().toLowerCase()),
})

/**
 * `…/packages/<vendor>/<package>/-/versions`: the versions of a package and the changes that members can make. People
 * who may publish also see deleted versions. Below it, `abandon` marks the package as abandoned.
 */
export async function packageChangeRoutes(
  app: FastifyInstance,
  context: PagesContext & { mirrors: MirrorPages },
): Promise<void> {
  const { config, db, changes, mirrors } = context
  const url = `${packagePath}/-/versions`

  app.get<Route>(url, async (request, reply) => {
    const view = await findAnyPackage(context, request)
    if ('mirror' in view) return mirrors.versions(view, request, reply)
    const { after } = readQuery(VersionsQuery, request)
    const { session, repository, about, mayPush } = view
    const { rows: versions, next } = await pageOf(
      (part) => listVersions(db, about.id, mayPush ? 'all' : 'undeleted', part),
      { after, limit: versionsPerPage },
      ({ id }) => id,
    )
    return versionsPage(reply, session ?? nobody, {
      ...view,
      versions,
      waiting: await listWaiting(context, view),
      deleters: await listDeleters(db, view, versions),
      affected: await findAffectedVersions(db, about.id, versions, await listAdvisories(db, about.id)),
      mayDelete: may(repository, session, 'deletePackage'),
      mayManage: may(repository, session, 'manage'),
      isContinued: after !== '',
      next,
    })
  })

  for (const [name, known] of Object.entries(versionActs)) {
    app.get<Route>(
      `${url}/${name}`,
      signedIn(context, async ({ session, by, prove, proveFactor }, request, reply) => {
        const { about, repository } = await packageOf(request, session, known.act)
        const { version } = readQuery(VersionForm, request)
        const found = await findVersion(db, about.id, version)
        if (!found) throw pageNotFound()
        const { explanation } = found.quarantinedAt === null ? known : { ...known, ...known.ifQuarantined }
        if (await needsFactor(known, repository, about)) {
          // Nobody proves anything for a change that is refused then.
          await refuseUnreviewed(db, changeOf(by, repository, about), version)
          await proveFactor()
        }
        await prove(known.act)
        return confirmationPage(reply, session, {
          title: known.title(version),
          explanation,
          action: `${versionsUrl(request.params)}/${name}`,
          fields: { version },
          button: known.button,
          ask: known.asksReason
            ? {
                name: 'reason',
                label: 'Reason, shown to everyone who installs it',
                maxLength: maxQuarantineReasonCharacters,
              }
            : null,
          back: versionsUrl(request.params),
        })
      }),
    )

    app.post<Route>(
      `${url}/${name}`,
      signedIn(
        context,
        { form: (request) => versionsUrl(request.params) },
        async ({ session, by, prove, proveFactor }, request, reply) => {
          const back = versionsUrl(request.params)
          const { repository, about } = await packageOf(request, session, known.act)
          const { version, reason } = readForm(VersionForm, request)
          await prove(known.act)
          if (await needsFactor(known, repository, about)) await proveFactor()
          if (known.asksReason && !QuarantineReason.safeParse(reason).success) {
            throw new PageError(
              400,
              `Give a reason of at most ${maxQuarantineReasonCharacters} characters, on one line.`,
            )
          }
          const change = { ...changeOf(by, repository, about), version }
          await known.run(changes, change, reason)
          const found = await findVersion(db, about.id, version)
          const { done } = found?.quarantinedAt ? { ...known, ...known.ifQuarantined } : known
          leaveNotice(request, reply, config, done(version))
          return reply.redirect(back, 303)
        },
      ),
    )
  }

  app.get<Route>(
    `${url}/abandon`,
    signedIn(context, async ({ session }, request, reply) => {
      const { repository, about } = await packageOf(request, session, 'push')
      const replacement = about.replacement ?? ''
      return abandonPage(reply, session, {
        ...viewOf(session, repository, about),
        replacement,
        problem: null,
      })
    }),
  )

  app.post<Route>(
    `${url}/abandon`,
    signedIn(
      context,
      { form: (request) => `${versionsUrl(request.params)}/abandon` },
      async ({ session, by }, request, reply) => {
        const { repository, about } = await packageOf(request, session, 'push')
        const { replacement } = readForm(AbandonForm, request)
        if (replacement !== '' && (!isPackageName(replacement) || replacement === about.name)) {
          const problem = 'The replacement must be the name of another package, such as acme/greeter.'
          const view = viewOf(session, repository, about)
          return abandonPage(reply.code(400), session, { ...view, replacement, problem })
        }
        const change = changeOf(by, repository, about)
        await setAbandoned(changes, change, replacement || true)
        leaveNotice(request, reply, config, `Package ${about.name} is marked as abandoned.`)
        return reply.redirect(versionsUrl(request.params), 303)
      },
    ),
  )

  for (const [name, question] of Object.entries(settingQuestions)) {
    app.get<Route>(
      `${url}/${name}`,
      signedIn(context, async ({ session, by, prove }, request, reply) => {
        const { repository, about } = await packageOf(request, session, question.act)
        await prove(question.act)
        const caution = await question.caution?.(db, changeOf(by, repository, about))
        return confirmationPage(reply, session, {
          title: question.title(about.name),
          explanation: [question.explanation, caution ?? ''].join(' ').trim(),
          action: `${versionsUrl(request.params)}/${name}`,
          fields: {},
          button: question.button,
          isSafe: question.isSafe,
          ask: null,
          back: versionsUrl(request.params),
        })
      }),
    )

    app.post<Route>(
      `${url}/${name}`,
      signedIn(
        context,
        { form: (request) => versionsUrl(request.params) },
        async ({ session, by, prove }, request, reply) => {
          const { repository, about } = await packageOf(request, session, question.act)
          await prove(question.act)
          await question.run(changes, changeOf(by, repository, about))
          leaveNotice(request, reply, config, question.done(about.name))
          return reply.redirect(versionsUrl(request.params), 303)
        },
      ),
    )
  }

  /** Returns whether an act brings a version into a repository without the review that others need. */
  async function needsFactor(known: VersionAct, { id }: VisibleRepository, { name }: PackageSummary) {
    return known === versionActs.restore && (await isReviewed(db, id, name))
  }

  async function packageOf({ params }: FastifyRequest<Route>, session: Session, act: RepositoryAct) {
    const repository = await permittedRepository(db, params, session, act)
    const about = await findPackageSummary(db, repository.id, `${params.vendor}/${params.package}`)
    if (!about) throw pageNotFound()
    return { repository, about }
  }

  function changeOf(
    by: Principal,
    { id: repositoryId }: VisibleRepository,
    { name: packageName }: PackageSummary,
  ) {
    return { repositoryId, packageName, by, baseUrl: config.baseUrl }
  }
}

function versionsUrl({ group, name, vendor, package: own }: Route['Params']): string {
  return `/${group}/${name}/packages/${vendor}/${own}/-/versions`
}
