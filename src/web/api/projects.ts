import { Readable } from 'node:stream'
import * as z from 'zod'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { openTurns } from '../../domain/turns.ts'
import { findingReasons } from '../../projects/findings.ts'
import {
  deleteProject,
  describeProject,
  describeSbom,
  findProject,
  listProjects,
  maxLockBytes,
  postLock,
} from '../../projects/projects.ts'
import { withoutTurn } from '../network-turns.ts'
import { addScope } from '../scope.ts'
import { openBodyMemory } from '../streamed-body.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { GroupPath } from './groups.ts'
import { type ApiContext, guardGroup, guardReport } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

/** Lock files are in memory while they arrive, wait and are judged. */
const lockMemory = { bytes: 8 * maxLockBytes, bytesOfOwner: 4 * maxLockBytes }
/** How many lock files are judged at once in a process, and of a group. */
const lockTurns = { atOnce: 4, atOnceOfOwner: 1, waiting: 200, waitingOfOwner: 50, waitingSeconds: 20 }

const FindingSchema = z
  .object({
    package: z.string().meta({ description: 'Name of the package', example: 'acme/lib' }),
    version: z.string().meta({ description: 'Version in the lock file', example: '1.0.0' }),
    reason: z.enum(findingReasons).meta({
      description:
        '`advisory`: an advisory affects the version; `quarantined`, `malware`: nobody should install it; `abandoned`: the package is not maintained; `denied`, `license`: a rule of the group denies the package or its licence',
    }),
    advisory: z
      .string()
      .nullable()
      .meta({ description: 'Id of the advisory', example: 'SVC-7kq2-m4tz-x3dp' }),
    title: z.string().nullable().meta({ description: 'What is wrong', example: 'Path traversal' }),
  })
  .meta({ id: 'Finding' })

const LockSchema = z
  .object({
    environment: z.string().meta({ description: 'Where the lock file is in use', example: 'production' }),
    commit: z
      .string()
      .nullable()
      .meta({ description: 'Commit of the project', example: '9fceb02d0ae598e95dc970b74767f19372d61af8' }),
    posted_at: Moment.meta({ description: 'When it was sent' }),
    posted_by: z
      .string()
      .nullable()
      .meta({ description: 'Username; null for a deploy token and the command line', example: 'alice' }),
    packages: z.int().meta({ description: 'Number of packages', example: 120 }),
    version: z
      .string()
      .nullable()
      .meta({ description: 'Version of the package that the query asks for', example: '1.0.0' }),
    problems: z.int().meta({ description: 'How much is wrong with its packages', example: 1 }),
    affected: z
      .array(FindingSchema)
      .meta({ description: 'What is wrong: in a list the first 20 problems, of one project 500' }),
  })
  .meta({ id: 'ProjectLock' })

const ProjectSchema = z
  .object({
    project: z.string().meta({ description: 'Name of the project', example: 'shop' }),
    created_at: Moment.meta({ description: 'When its first lock file was sent' }),
    locks: z.array(LockSchema).meta({ description: 'The newest lock file of each environment' }),
  })
  .meta({ id: 'Project' })

const PostedLock = z
  .object({
    project: ProjectSchema.shape.project,
    packages: LockSchema.shape.packages,
    affected: LockSchema.shape.affected,
  })
  .meta({ id: 'PostedLock' })

const Sbom = z
  .looseObject({
    bomFormat: z.literal('CycloneDX').meta({ description: 'Format of the document', example: 'CycloneDX' }),
    specVersion: z.literal('1.6').meta({ description: 'Version of the format', example: '1.6' }),
  })
  .meta({ id: 'Sbom' })

const ProjectPath = GroupPath.extend({
  project: z.string().max(100).meta({ description: 'Name of the project', example: 'shop' }),
})

const EnvironmentQuery = z.object({
  environment: z
    .string()
    .max(100)
    .default('production')
    .meta({ description: 'Where the lock file is in use', example: 'production' }),
})

const LockQuery = EnvironmentQuery.extend({
  commit: z.string().max(100).optional().meta({ description: 'Commit of the project', example: '9fceb02d' }),
})

const ProjectQuery = PageQuery.extend({
  package: z
    .string()
    .max(150)
    .optional()
    .meta({ description: 'Only lock files with this package', example: 'acme/lib' }),
  constraint: z
    .string()
    .max(1000)
    .optional()
    .meta({ description: 'Only versions of the package that satisfy it', example: '<2.0' }),
  affected: z
    .stringbool()
    .optional()
    .meta({ description: 'Only lock files with something wrong', example: 'true' }),
})

/** The projects of a group: `/api/groups/<group>/projects`. */
export async function projectRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { config, db, upstreamQueries } = context
  const url = '/groups/:group/projects'
  const mayRead = guardGroup('readProjects', context)
  const mayReport = guardReport(context)
  const mayDelete = guardGroup('deleteProject', context)
  const refuse = () =>
    new Refusal(errcode.unavailable, 'too many lock files arrive at once: send it again in a minute')
  const useBody = openBodyMemory(lockMemory, refuse)
  const inTurn = openTurns(lockTurns, refuse)
  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'listProjects',
      tag: 'Projects',
      summary: 'List the projects of a group by name, also by the version of a package that they have',
      params: GroupPath,
      querystring: ProjectQuery,
      response: { 200: z.array(ProjectSchema) },
    }),
    async (request, reply) => {
      const { groupId } = mayRead.granted(request)
      const { package: packageName, constraint, affected } = request.query
      const filter = {
        package: packageName ?? null,
        constraint: constraint ?? null,
        isAffected: affected ?? false,
      }
      return readPage(
        { request, reply, config },
        (part) => listProjects(db, groupId, filter, part),
        ({ name }) => name,
        describeProject,
      )
    },
  )

  app.get(
    `${url}/:project`,
    endpoint(mayRead, {
      operationId: 'getProject',
      tag: 'Projects',
      summary: 'Get a project with the newest lock file of each environment',
      params: ProjectPath,
      response: { 200: ProjectSchema },
    }),
    async (request) => {
      const { groupId } = mayRead.granted(request)
      const project = await findProject(db, groupId, request.params.project)
      if (!project) throw notFound('project not found')
      return describeProject(project)
    },
  )

  app.get(
    `${url}/:project/sbom`,
    endpoint(mayRead, {
      operationId: 'getSbom',
      tag: 'Projects',
      summary: 'Get the software bill of materials of a project and environment: CycloneDX 1.6 in JSON',
      params: ProjectPath,
      querystring: EnvironmentQuery,
      response: { 200: Sbom },
    }),
    async (request, reply) => {
      const { groupId, name } = mayRead.granted(request)
      const place = { project: request.params.project, environment: request.query.environment }
      const sbom = await describeSbom(db, { id: groupId, name }, place)
      if (sbom === null) throw notFound('project or environment not found')
      return reply
        .type('application/vnd.cyclonedx+json; version=1.6')
        .serializer((text) => text as string)
        .send(sbom as never)
    },
  )

  app.delete(
    `${url}/:project`,
    endpoint(mayDelete, {
      operationId: 'deleteProject',
      tag: 'Projects',
      summary: 'Delete a project and its lock files',
      params: ProjectPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { groupId, by } = mayDelete.granted(request)
      if (!(await deleteProject(db, by, groupId, request.params.project))) throw notFound('project not found')
      return reply.code(204).send()
    },
  )

  await addScope(app, 'lock files', async (scope) => {
    // `curl --data-binary` names a form as the type of everything.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', async (_request: unknown, body: unknown) => body)
    scope.post(
      `${url}/:project/lock`,
      endpoint(mayReport, {
        operationId: 'postLock',
        tag: 'Projects',
        summary: 'Send the composer.lock of a project and environment',
        description:
          'The body is the composer.lock, at most 16 MiB, with any content type. It takes the place of the former one. The response names what is wrong with its packages now.',
        params: ProjectPath,
        querystring: LockQuery,
        response: { 201: PostedLock },
      }),
      // It waits for its client. Its turn is that of its group.
      withoutTurn(async (request, reply) => {
        const { groupId, by } = mayReport.granted(request)
        const { environment, commit } = request.query
        const body = request.body instanceof Readable ? request.body : Readable.from([])
        const posted = await useBody({ owner: groupId, body, maxBytes: maxLockBytes }, async (bytes) => {
          if (bytes === null)
            throw new Refusal(errcode.resourceExhausted, 'a lock file can have at most 16 MiB', {
              status: 413,
            })
          const listUpstreamAdvisories = upstreamQueries.listAdvisories
          return inTurn(groupId, () =>
            postLock(
              { ...context, listUpstreamAdvisories, log: request.log },
              { groupId, by },
              { project: request.params.project, environment, commit: commit ?? null },
              bytes,
            ),
          )
        })
        return reply.code(201).send(posted)
      }),
    )
  })
}
