import type { FastifyReply } from 'fastify'
import * as z from 'zod'
import type { Principal } from '../../domain/principal.ts'
import { patternsFor } from '../../domain/publisher.ts'
import { maySee } from '../../groups/access.ts'
import { describeStage } from '../../packages/stages/describe-stage.ts'
import { noStage } from '../../packages/stages/release.ts'
import { findStageOf, listStages, type Stage, stageStates } from '../../packages/tables/staged-versions.ts'
import { allowSilence } from '../allow-silence.ts'
import { withoutTurn } from '../network-turns.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import { type ApiContext, guardRepository, type RepositoryGrant } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'
import { Attestation, PublishedByBody } from './versions.ts'

const maxWaitSeconds = 60

const StageBody = z
  .object({
    id: z.string().meta({ description: 'Id of the stage', example: '17' }),
    status: z.enum(stageStates).meta({ description: 'Only a `staged` version can be released or rejected' }),
    name: z.string().meta({ description: 'Vendor and package', example: 'acme/hello' }),
    version: z.string().meta({ description: 'Semantic Version', example: '1.0.0' }),
    sha256: z.string().meta({
      description: 'SHA-256 of the archive, hexadecimal',
      example: '0df35b8fe84bf0c44587e6b65e147395a81165edf8c6babf684701bf847d556e',
    }),
    size: z.int().meta({ description: 'Bytes of the archive', example: 12_345 }),
    review_url: z.url().meta({
      description: 'The page where a developer releases or rejects it',
      example: 'https://svc.example.com/acme/php/-/stages/17',
    }),
    repository_url: z.url().meta({
      description: 'A Composer repository with the staged version and everything that the repository offers',
      example: 'https://svc.example.com/acme/php/-/packages/stages/17/',
    }),
    stager: z.string().nullable().meta({
      description: 'Username; "deleted account" once the account is gone, null when no account staged it',
      example: 'alice',
    }),
    deploy_token: z.string().nullable().meta({
      description: 'Name of the deploy token that staged it; null for anything else',
      example: 'build server',
    }),
    staged_by: PublishedByBody.nullable().meta({
      description: 'Who staged it, as `published_by` of a version. Null for a command, such as an import',
    }),
    attestations: z.array(Attestation).meta({
      description: 'Its attestations. They were verified when they were uploaded',
    }),
    staged_at: Moment.meta({ description: 'When it was staged' }),
    expires_at: Moment.meta({ description: 'When it expires, if nobody decides' }),
    approver: z.string().nullable().meta({
      description: 'Who gave the first of two approvals; null without one',
      example: 'bob',
    }),
    decider: z.string().nullable().meta({
      description: 'Who released or rejected it; null while it waits, when it expired, and for a command',
      example: 'bob',
    }),
    decided_at: Moment.nullable().meta({ description: 'When it was released or rejected, or expired' }),
  })
  .meta({ id: 'StagedVersion' })

const StagesQuery = PageQuery.extend({
  status: z.enum(stageStates).optional().meta({ description: 'Only those in this state' }),
})
const StagePath = RepositoryPath.extend({
  id: z.string().meta({ description: 'Id of the stage', example: '17' }),
})
const WaitQuery = z.object({
  wait: z.coerce.number().int().min(0).max(maxWaitSeconds).default(0).meta({
    description: 'Seconds to wait for a change of the state. The response comes when it changes',
    example: 60,
  }),
})

/** Staged versions: `…/stages`. Nothing here releases or rejects one: only browsers and commands do. */
export async function stageRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config, stageWatch } = context
  const mayStage = guardRepository('stage', context)

  app.get(
    '/repositories/:group/:name/stages',
    endpoint(mayStage, {
      operationId: 'listStages',
      tag: 'Versions',
      summary: 'List the staged versions of a repository, the latest first',
      description: 'Those that were released, rejected or expired are listed for 90 days.',
      params: RepositoryPath,
      querystring: StagesQuery,
      response: { 200: z.array(StageBody) },
    }),
    async (request, reply) => {
      const { repositoryId, path, grant } = mayStage.granted(request)
      // A token of a trusted publisher sees the packages that it may stage.
      const packages = grant.rights ? patternsFor(grant.rights, 'stage') : null
      return readPage(
        { request, reply, config },
        (part) => listStages(db, repositoryId, part, { state: request.query.status, packages }),
        ({ id }) => id,
        (stage) => describeStage(stage, path, config.baseUrl),
      )
    },
  )

  app.get(
    '/repositories/:group/:name/stages/:id',
    endpoint(mayStage, {
      operationId: 'getStage',
      tag: 'Versions',
      summary: 'Get a staged version, and wait until it is released',
      description: 'With `wait`, the response comes when the state changes, or after that time.',
      params: StagePath,
      querystring: WaitQuery,
      response: { 200: StageBody },
    }),
    // It may wait for a minute, and others of the network need the turn.
    withoutTurn(async (request, reply) => {
      const { id } = request.params
      const { wait: seconds } = request.query
      if (seconds > 0) {
        const { state } = await stageOf(mayStage.granted(request), id)
        if (state === 'staged') {
          allowSilence(request, seconds * 1000)
          const owner = ownerOf(mayStage.granted(request).by)
          await stageWatch.wait({ id, owner, seconds, signal: goneOf(reply) })
          // The token may have been revoked meanwhile.
          await mayStage.preValidation(request)
        }
      }
      const granted = mayStage.granted(request)
      return describeStage(await stageOf(granted, id), granted.path, config.baseUrl)
    }),
  )

  async function stageOf({ repositoryId, access }: RepositoryGrant, id: string): Promise<Stage> {
    const stage = await findStageOf(db, repositoryId, id)
    if (!stage || !maySee(access, 'stage', stage)) throw noStage()
    return stage
  }
}

/** Names the holder of a token, whose requests wait together. */
function ownerOf({ accountId, token }: Principal): string {
  return accountId === null ? `${token?.kind} ${token?.tokenId}` : `account ${accountId}`
}

/** Returns a signal that is aborted when the client has closed its connection. */
function goneOf({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => gone.abort())
  return gone.signal
}
