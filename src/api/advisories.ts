import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { publishAdvisory, withdrawAdvisory } from '../registry/lifecycle/advise.ts'
import { isConstraint, maxConstraintLength } from '../registry/manifest/constraint.ts'
import { type Advisory as KnownAdvisory, listAdvisories, severities } from '../registry/tables/advisories.ts'
import { allowedTo, changeOf, packageNameOf, param } from './admission.ts'
import type { ApiContext } from './context.ts'
import { notFound } from './errors.ts'
import { addInterface } from './interface.ts'
import { findPackage } from './listed-packages.ts'
import { packageUrl } from './packages.ts'
import { plainText } from './plain-text.ts'

const NewAdvisory = z.object({
  title: plainText(255).min(1),
  // One that Composer's parser refuses would break every project that loads the package.
  affected_versions: z
    .string()
    .min(1)
    .max(maxConstraintLength)
    .refine(isConstraint, { message: 'must be a version constraint, such as <1.2.3 or ^2.0' }),
  cve: z
    .string()
    .regex(/^CVE-\d{4}-\d{4,19}$/, { message: 'must be such as CVE-2026-12345' })
    .nullish(),
  link: z
    .string()
    .max(2000)
    .regex(/^https?:\/\/[!-~]+$/, { message: 'must be a web address' })
    .nullish(),
  severity: z.enum(severities).nullish(),
})

const Advisory = z.object({
  advisory_id: z.string(),
  package: z.string(),
  title: z.string(),
  affected_versions: z.string(),
  cve: z.string().nullable(),
  link: z.string().nullable(),
  severity: z.enum(severities).nullable(),
  reported_at: z.iso.datetime(),
})

/** Security advisories of a package: `…/advisories` (DESIGN §6). */
export async function advisoryRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { db } = context
  const url = `${packageUrl}/advisories`

  addInterface(
    app,
    {
      method: 'GET',
      url,
      summary: 'The advisories that stand against a package, the oldest first',
      entrance: allowedTo('pull', context),
      answer: z.array(Advisory),
    },
    async ({ request, admitted }) => {
      const found = await findPackage(db, admitted.repositoryId, packageNameOf(request))
      if (!found) throw notFound('package not found')
      return (await listAdvisories(db, found.id)).map(describeAdvisory)
    },
  )

  addInterface(
    app,
    {
      method: 'POST',
      url,
      summary: 'Publish an advisory against a package',
      entrance: allowedTo('push', context),
      body: NewAdvisory,
      answer: Advisory,
      status: 201,
    },
    async ({ request, admitted, body }) => {
      const { title, affected_versions, cve = null, link = null, severity = null } = body
      const text = { title, affectedVersions: affected_versions, cve, link, severity }
      return describeAdvisory(await publishAdvisory(db, changeOf(request, admitted), text))
    },
  )

  addInterface(
    app,
    {
      method: 'DELETE',
      url: `${url}/:advisory`,
      summary: 'Withdraw an advisory',
      // Publishing a warning makes the package safer; removing one makes it less safe.
      entrance: allowedTo('manage', context),
    },
    async ({ request, admitted }) => {
      await withdrawAdvisory(db, changeOf(request, admitted), param(request, 'advisory'))
    },
  )
}

function describeAdvisory(known: KnownAdvisory): z.input<typeof Advisory> {
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
