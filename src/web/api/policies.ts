import * as z from 'zod'
import { rowId } from '../../domain/row-id.ts'
import {
  addPolicyRule,
  changePolicyRule,
  checkPolicyRule,
  describePolicyRule,
  findPolicyRule,
  listPolicyRules,
  maxPolicyPatterns,
  maxPolicyReason,
  removePolicyRule,
} from '../../projects/policies.ts'
import { policyKinds } from '../../projects/policy.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { GroupPath } from './groups.ts'
import { type ApiContext, guardGroup } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

const settings = {
  patterns: z
    .array(z.string().max(500))
    .min(1)
    .max(maxPolicyPatterns)
    .meta({
      description:
        'Packages such as `acme/lib`, `acme/*` or, with the kind `packages`, `acme/lib:<2.0`; or licences of SPDX such as `GPL-3.0-only` or `GPL-*`, `proprietary`, and `NONE` for packages without one',
      example: ['acme/lib:<2.0'],
    }),
  reason: z.string().max(maxPolicyReason).meta({
    description: 'What people see in Composer',
    example: 'It is no longer supported. Update to 2.0.',
  }),
}

const RuleSchema = z
  .object({
    id: z.int().meta({ description: 'Id of the rule', example: 7 }),
    kind: z.enum(policyKinds).meta({
      description:
        '`packages`: denies what matches; `licenses`: denies packages that need such a licence; `unapproved`: denies every package that does not match',
    }),
    ...settings,
    made_by: z.string().nullable().meta({
      description: 'Username; null for the command line, "deleted account" after the account was deleted',
      example: 'alice',
    }),
    created_at: Moment.meta({ description: 'When it was made' }),
    changed_at: Moment.meta({ description: 'When it was changed last' }),
  })
  .meta({ id: 'PolicyRule' })

const RuleDraft = z.strictObject({ kind: RuleSchema.shape.kind, ...settings }).meta({ id: 'PolicyRuleDraft' })
const RuleUpdate = z.strictObject(settings).partial().meta({ id: 'PolicyRuleUpdate' })

const Broken = z
  .object({
    projects: z.int().meta({ description: 'Number of projects with a package that it denies', example: 1 }),
    count: z.int().meta({
      description: 'Number of packages in lock files of environments; 10,000 stands for more',
      example: 1,
    }),
    broken: z
      .array(
        z
          .object({
            project: z.string().meta({ description: 'Name of the project', example: 'shop' }),
            environment: z
              .string()
              .meta({ description: 'Where the lock file is in use', example: 'production' }),
            package: z.string().meta({ description: 'Name of the package', example: 'acme/lib' }),
            version: z.string().meta({ description: 'Version in the lock file', example: '1.0.0' }),
          })
          .meta({ id: 'BrokenPackage' }),
      )
      .meta({ description: 'The first 500, by project, environment and package' }),
  })
  .meta({ id: 'BrokenProjects' })

const DryRun = z.object({
  dry_run: z
    .stringbool({ truthy: ['true', '1', 'yes', ''], falsy: ['false', '0', 'no'] })
    .optional()
    .meta({ description: 'Only say what the rule would deny of the lock files', example: 'true' }),
})

const RulePath = GroupPath.extend({ policy: rowId.meta({ description: 'Id of the rule', example: '7' }) })

/** The rules of a group about what its projects may install: `/api/groups/<group>/policies`. */
export async function policyRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { config, db } = context
  const url = '/groups/:group/policies'
  const mayRead = guardGroup('readPolicies', context)
  const mayManage = guardGroup('managePolicies', context)
  const theRule = async (groupId: string, id: string) => {
    const rule = await findPolicyRule(db, groupId, id)
    if (!rule) throw notFound('rule not found')
    return describePolicyRule(rule)
  }

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'listPolicies',
      tag: 'Projects',
      summary: 'List the rules of a group about what its projects may install, the oldest first',
      params: GroupPath,
      querystring: PageQuery,
      response: { 200: z.array(RuleSchema) },
    }),
    async (request, reply) => {
      const { groupId } = mayRead.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listPolicyRules(db, groupId, part),
        ({ id }) => id,
        describePolicyRule,
      )
    },
  )

  app.post(
    url,
    endpoint(mayManage, {
      operationId: 'addPolicy',
      tag: 'Projects',
      summary: 'Add a rule about what the projects of a group may install',
      description: 'With `dry_run` nothing is added, and the response names what the rule would deny.',
      params: GroupPath,
      querystring: DryRun,
      body: RuleDraft,
      response: { 200: Broken, 201: RuleSchema },
    }),
    async (request, reply) => {
      const { groupId, by } = mayManage.granted(request)
      if (request.query.dry_run) return reply.code(200).send(await checkPolicyRule(db, groupId, request.body))
      const id = await addPolicyRule(db, { groupId, by }, request.body)
      return reply.code(201).send(await theRule(groupId, id))
    },
  )

  app.get(
    `${url}/:policy`,
    endpoint(mayRead, {
      operationId: 'getPolicy',
      tag: 'Projects',
      summary: 'Get a rule of a group',
      params: RulePath,
      response: { 200: RuleSchema },
    }),
    async (request) => theRule(mayRead.granted(request).groupId, request.params.policy),
  )

  app.patch(
    `${url}/:policy`,
    endpoint(mayManage, {
      operationId: 'changePolicy',
      tag: 'Projects',
      summary: 'Change a rule of a group',
      params: RulePath,
      body: RuleUpdate,
      response: { 200: RuleSchema },
    }),
    async (request) => {
      const { groupId, by } = mayManage.granted(request)
      const { policy: id } = request.params
      const { patterns, reason } = request.body
      const changes = { ...(patterns && { patterns }), ...(reason !== undefined && { reason }) }
      if (!(await changePolicyRule(db, { groupId, id, by }, changes))) throw notFound('rule not found')
      return theRule(groupId, id)
    },
  )

  app.delete(
    `${url}/:policy`,
    endpoint(mayManage, {
      operationId: 'removePolicy',
      tag: 'Projects',
      summary: 'Remove a rule of a group',
      params: RulePath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { groupId, by } = mayManage.granted(request)
      if (!(await removePolicyRule(db, { groupId, id: request.params.policy, by })))
        throw notFound('rule not found')
      return reply.code(204).send()
    },
  )
}
