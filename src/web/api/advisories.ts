import * as z from 'zod'
import { AdvisoryDraft, QuarantineReason } from '../../packages/lifecycle/advisory-draft.ts'
import {
  liftQuarantine,
  publishAdvisory,
  quarantineVersion,
  withdrawAdvisory,
} from '../../packages/lifecycle/warn.ts'
import { findPackage } from '../../packages/tables/listed-packages.ts'
import {
  type Advisory as KnownAdvisory,
  listAdvisories,
  severities,
} from '../../packages/tables/package-warnings.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { type ApiContext, guardRepository } from './guards.ts'
import { PackagePath, packageChangeOf, packageNameOf, packageUrl } from './packages.ts'
import { VersionPath, versionChangeOf, versionUrl } from './versions.ts'

const Advisory = z
  .object({
    advisory_id: z.string().meta({ description: 'ID of the advisory', example: 'SVC-7kq2-m4tz-x3dp' }),
    package: z.string().meta({ description: 'Name of the package', example: 'acme/hello' }),
    title: z
      .string()
      .meta({ description: 'What is wrong, in one line', example: 'Path traversal in the archive reader' }),
    affected_versions: z.string().meta({ description: 'A Composer constraint', example: '<1.2.3' }),
    cve: z.string().nullable().meta({ description: 'CVE id', example: 'CVE-2026-12345' }),
    link: z
      .string()
      .nullable()
      .meta({ description: 'A page about it', example: 'https://example.com/advisories/17' }),
    severity: z.enum(severities).nullable().meta({ description: 'Null when its author gave none' }),
    reported_at: Moment.meta({ description: 'When it was published' }),
  })
  .meta({ id: 'Advisory' })

const AdvisoryPath = PackagePath.extend({
  advisory: z.string().meta({ description: 'ID of the advisory', example: 'SVC-7kq2-m4tz-x3dp' }),
})

const QuarantineDraft = z
  .strictObject({
    reason: QuarantineReason.default('quarantined by its registry').meta({
      description: 'Composer shows it to everyone who tries to install the version',
      example: 'a stolen token published it',
    }),
  })
  .meta({ id: 'QuarantineDraft' })

const Quarantine = z
  .object({
    version: z.string().meta({ description: 'Semantic Version', example: '1.0.0' }),
    quarantine_reason: z.string().meta({ description: 'What Composer shows', example: 'stolen token' }),
  })
  .meta({ id: 'Quarantine' })

/**
 * Security advisories of a package and quarantine of a version (CONTRACT 6.5). Everyone who may push can add a warning.
 * Removing a warning makes a package less safe, so it requires an admin: a stolen publish token must not be enough.
 */
export async function advisoryRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, changes } = context
  const url = `${packageUrl}/advisories`
  const mayPull = guardRepository('pull', context)
  const mayPush = guardRepository('push', context)
  const mayWithdraw = guardRepository('withdrawAdvisory', context)
  const mayRelease = guardRepository('liftQuarantine', context)

  app.get(
    url,
    endpoint(mayPull, {
      operationId: 'listAdvisories',
      tag: 'Security',
      summary: 'List the advisories of a package, oldest first',
      params: PackagePath,
      response: { 200: z.array(Advisory) },
    }),
    async (request) => {
      const found = await findPackage(
        db,
        mayPull.granted(request).repositoryId,
        packageNameOf(request.params),
      )
      if (!found) throw notFound('package not found')
      return (await listAdvisories(db, found.id)).map(formatAdvisory)
    },
  )

  app.post(
    url,
    endpoint(mayPush, {
      operationId: 'createAdvisory',
      tag: 'Security',
      summary: 'Publish an advisory for a package',
      params: PackagePath,
      body: AdvisoryDraft,
      response: { 201: Advisory },
    }),
    async (request, reply) => {
      const { title, affected_versions, cve = null, link = null, severity = null } = request.body
      const text = { title, affectedVersions: affected_versions, cve, link, severity }
      const change = packageChangeOf(mayPush.granted(request), request.params)
      return reply.code(201).send(formatAdvisory(await publishAdvisory(changes, change, text)))
    },
  )

  app.delete(
    `${url}/:advisory`,
    endpoint(mayWithdraw, {
      operationId: 'withdrawAdvisory',
      tag: 'Security',
      summary: 'Withdraw an advisory',
      params: AdvisoryPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const change = packageChangeOf(mayWithdraw.granted(request), request.params)
      await withdrawAdvisory(changes, change, request.params.advisory)
      return reply.code(204).send()
    },
  )

  app.post(
    `${versionUrl}/quarantine`,
    endpoint(mayPush, {
      operationId: 'quarantineVersion',
      tag: 'Security',
      summary: 'Quarantine a version',
      description: 'No client can install a quarantined version, not even from a lock file.',
      params: VersionPath,
      body: QuarantineDraft,
      response: { 200: Quarantine },
    }),
    async (request) => {
      const change = versionChangeOf(mayPush.granted(request), request.params)
      await quarantineVersion(changes, change, request.body.reason)
      return { version: change.version, quarantine_reason: request.body.reason }
    },
  )

  app.delete(
    `${versionUrl}/quarantine`,
    endpoint(mayRelease, {
      operationId: 'liftQuarantine',
      tag: 'Security',
      summary: 'Lift the quarantine of a version',
      params: VersionPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      await liftQuarantine(changes, versionChangeOf(mayRelease.granted(request), request.params))
      return reply.code(204).send()
    },
  )
}

function formatAdvisory(known: KnownAdvisory): z.input<typeof Advisory> {
  const { advisoryId, packageName, title, affectedVersions, cve, link, severity, reportedAt } = known
  return {
    advisory_id: advisoryId,
    package: packageName,
    title,
    affected_versions: affectedVersions,
    cve,
    link,
    severity,
    reported_at: reportedAt.toISOString(),
  }
}
