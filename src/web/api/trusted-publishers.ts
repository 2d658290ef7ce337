import * as z from 'zod'
import { publisherRightNames } from '../../domain/publisher.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { rowId } from '../../domain/row-id.ts'
import { checkIdentityToken } from '../../publishers/check-token.ts'
import { ExchangeRefusal } from '../../publishers/exchange-refusal.ts'
import { publisherProviders } from '../../publishers/providers.ts'
import {
  addPublisher,
  findPublisher,
  listPublishers,
  removePublisher,
  type TrustedPublisher,
} from '../../publishers/trusted-publishers.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { type ApiContext, guardRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const Difference = z
  .object({
    claim: z.string().meta({ description: 'Name of the claim', example: 'environment' }),
    expected: z.string().meta({ description: 'What the publisher expects', example: 'production' }),
    given: z
      .string()
      .nullable()
      .meta({ description: 'What the token has; null for nothing', example: 'test' }),
  })
  .meta({ id: 'ClaimDifference' })

const Run = z
  .object({
    provider: z.string().meta({ description: 'Provider of the publisher', example: 'github' }),
    project: z.string().nullable().meta({ description: 'Project', example: 'acme/lib' }),
    workflow: z.string().nullable().meta({ description: 'File of the workflow', example: 'release.yml' }),
    ref: z.string().nullable().meta({ description: 'Branch or tag', example: 'refs/tags/v1.0.0' }),
    commit: z
      .string()
      .nullable()
      .meta({ description: 'Commit', example: '9fceb02d0ae598e95dc970b74767f19372d61af8' }),
    url: z
      .string()
      .nullable()
      .meta({ description: 'Page of the run', example: 'https://github.com/acme/lib/actions/runs/1' }),
  })
  .meta({ id: 'PublisherRun' })

const settings = {
  provider: z.enum(publisherProviders).meta({ description: 'Provider of the CI; `claims` is any issuer' }),
  issuer: z.string().max(500).meta({
    description: 'Issuer of identity tokens, compared exactly',
    example: 'https://token.actions.githubusercontent.com',
  }),
  project: z.string().max(300).nullable().meta({ description: 'Project, without case', example: 'acme/lib' }),
  workflow: z
    .string()
    .max(300)
    .nullable()
    .meta({ description: 'File name of the workflow', example: 'release.yml' }),
  environment: z
    .string()
    .max(255)
    .nullable()
    .meta({ description: 'Environment, without case', example: 'production' }),
  workflow_project: z.string().max(300).nullable().meta({
    description: 'Project of a called reusable workflow. Null: the workflow must be in the project',
    example: 'acme/workflows',
  }),
  claims: z.record(z.string().max(100), z.string().max(500)).meta({
    description: 'More conditions: values by the names of claims. `*` matches any characters',
    example: { ref: 'refs/tags/*' },
  }),
  packages: z
    .array(z.string().max(200))
    .max(100)
    .meta({ description: 'Patterns of the packages that its tokens are for', example: ['acme/*'] }),
  right: z.enum(publisherRightNames).meta({
    description:
      '`publish` uploads packages; `stage` uploads versions that people release; `read` installs packages',
  }),
}

const Publisher = z
  .object({
    id: z.int().meta({ description: 'Id of the trusted publisher', example: 7 }),
    ...settings,
    pins: z.record(z.string(), z.string()).meta({
      description: 'The ids of the project at the first exchange. A project with other ids is refused',
      example: { repository_id: '17' },
    }),
    made_by: z.string().nullable().meta({
      description: 'Username; null for the command line, "deleted account" after the account was deleted',
      example: 'alice',
    }),
    created_at: Moment.meta({ description: 'When it was added' }),
    reserved_packages: z.array(z.string()).meta({
      description: 'Packages that do not exist yet, and whose first version nobody else publishes',
      example: ['acme/new'],
    }),
    reserved_until: Moment.nullable().meta({
      description: 'When the reservation of these packages lapses; null without one',
    }),
    last_exchange: z
      .object({
        at: z.string().meta({ description: 'When it was', example: '2026-11-21T03:25:00.000Z' }),
        outcome: z.enum(['issued', 'refused']).meta({ description: 'Whether a token was issued' }),
        differs: z.array(Difference).meta({ description: 'The claims that differed' }),
        run: Run.meta({ description: 'The CI job' }),
      })
      .nullable()
      .meta({ description: 'The last exchange; null before the first one' }),
  })
  .meta({ id: 'TrustedPublisher' })

const PublisherDraft = z
  .strictObject({
    ...settings,
    issuer: settings.issuer.optional(),
    project: settings.project.optional(),
    workflow: settings.workflow.optional(),
    environment: settings.environment.optional(),
    workflow_project: settings.workflow_project.optional(),
    claims: settings.claims.optional(),
    packages: settings.packages.optional(),
  })
  .meta({ id: 'TrustedPublisherDraft' })

const PublisherPath = RepositoryPath.extend({
  publisher: rowId.meta({ description: 'Id of the trusted publisher', example: '7' }),
})

const TokenToCheck = z
  .strictObject({
    token: z
      .string()
      .max(16_384)
      .meta({ description: 'An identity token of a CI job', example: 'eyJhbGciOi…' }),
  })
  .meta({ id: 'IdentityTokenToCheck' })

const TokenCheck = z
  .object({
    audience: z
      .string()
      .meta({ description: 'The audience that the token must have', example: 'https://svc.example.com' }),
    claims: z
      .record(z.string(), z.unknown())
      .meta({ description: 'The claims of the token', example: { repository: 'acme/lib' } }),
    publishers: z
      .array(
        z.object({
          id: Publisher.shape.id,
          matches: z.boolean().meta({ description: 'Whether the token would be exchanged' }),
          differs: z.array(Difference).meta({ description: 'What differs' }),
          right: settings.right,
          packages: settings.packages,
        }),
      )
      .meta({ description: 'All trusted publishers of the repository' }),
  })
  .meta({ id: 'IdentityTokenCheck' })

/** The trusted publishers of a repository: `/api/repositories/<group>/<name>/trusted-publishers`. */
export async function trustedPublisherRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { config, db } = context
  const url = '/repositories/:group/:name/trusted-publishers'
  const mayRead = guardRepository('readSettings', context)
  const mayTrust = guardRepository('trustPublisher', context)
  const mayManage = guardRepository('manage', context)

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'listTrustedPublishers',
      tag: 'Trusted publishers',
      summary: 'List the trusted publishers of a repository, the oldest first',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(Publisher) },
    }),
    async (request, reply) => {
      const { repositoryId } = mayRead.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listPublishers(db, repositoryId, part),
        ({ id }) => id,
        describe,
      )
    },
  )

  app.post(
    url,
    endpoint(mayTrust, {
      operationId: 'addTrustedPublisher',
      tag: 'Trusted publishers',
      summary: 'Add a trusted publisher to a repository',
      description: 'The package of the publisher need not exist yet.',
      params: RepositoryPath,
      body: PublisherDraft,
      response: { 201: Publisher },
    }),
    async (request, reply) => {
      const { repositoryId, by } = mayTrust.granted(request)
      const { workflow_project, claims = {}, ...wanted } = request.body
      const id = await addPublisher(
        context,
        { repositoryId, by },
        {
          provider: wanted.provider,
          right: wanted.right,
          issuer: wanted.issuer ?? null,
          project: wanted.project ?? null,
          workflow: wanted.workflow ?? null,
          environment: wanted.environment ?? null,
          workflowProject: workflow_project ?? null,
          claims: Object.entries(claims).map(([name, value]) => ({ name, value })),
          ...(wanted.packages && { packages: wanted.packages }),
        },
      )
      const added = await findPublisher(db, repositoryId, id)
      if (!added) throw notFound('trusted publisher not found')
      return reply.code(201).send(describe(added))
    },
  )

  app.delete(
    `${url}/:publisher`,
    endpoint(mayManage, {
      operationId: 'removeTrustedPublisher',
      tag: 'Trusted publishers',
      summary: 'Remove a trusted publisher, and end its tokens',
      params: PublisherPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { repositoryId, by } = mayManage.granted(request)
      const isRemoved = await removePublisher(db, by, { id: request.params.publisher, repositoryId })
      if (!isRemoved) throw notFound('trusted publisher not found')
      return reply.code(204).send()
    },
  )

  app.post(
    `${url}/check`,
    endpoint(mayRead, {
      operationId: 'checkIdentityToken',
      tag: 'Trusted publishers',
      summary: 'Compare an identity token with the trusted publishers of a repository',
      description: 'It issues no token, and the identity token can still be exchanged.',
      params: RepositoryPath,
      body: TokenToCheck,
      response: { 200: TokenCheck },
    }),
    async (request) => {
      const { repositoryId, path } = mayRead.granted(request)
      const { token } = request.body
      const { audience, claims, publishers } = await checkIdentityToken(context, {
        repositoryId,
        path,
        token,
      }).catch((error: unknown) => {
        throw error instanceof ExchangeRefusal ? new Refusal(errcode.invalidArgument, error.message) : error
      })
      return {
        audience,
        claims,
        publishers: publishers.map(({ publisher, differs }) => ({
          id: Number(publisher.id),
          matches: differs.length === 0,
          differs,
          right: publisher.right,
          packages: publisher.packages,
        })),
      }
    },
  )
}

function describe(publisher: TrustedPublisher): z.input<typeof Publisher> {
  const { id, provider, issuer, project, workflow, environment, workflowProject, packages, right } = publisher
  return {
    id: Number(id),
    provider,
    issuer,
    project,
    workflow,
    environment,
    workflow_project: workflowProject,
    claims: Object.fromEntries(publisher.claims.map(({ name, value }) => [name, value])),
    packages,
    right,
    pins: { ...publisher.pins },
    made_by: publisher.madeBy,
    created_at: publisher.createdAt.toISOString(),
    reserved_packages: publisher.reservedNames,
    reserved_until: publisher.reservedUntil?.toISOString() ?? null,
    last_exchange: publisher.lastExchange,
  }
}
