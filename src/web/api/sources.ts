import * as z from 'zod'
import { rowId } from '../../domain/row-id.ts'
import { keyOfRef, listRefs, refStates, type SourceRef } from '../../sources/source-refs.ts'
import {
  addSource,
  confirmSource,
  describeSource,
  findSource,
  listSources,
  maxEveryMinutes,
  queueSource,
  removeSource,
  replaceHookSecret,
  type Source,
} from '../../sources/sources.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { type ApiContext, guardRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const settings = {
  url: z.string().max(500).meta({
    description: 'URL of the Git repository, with https:// or ssh://, without credentials',
    example: 'https://git.example.com/acme/lib.git',
  }),
  path: z
    .string()
    .max(300)
    .meta({ description: 'Folder of the package; empty for the root', example: 'packages/lib' }),
  tags: z.string().max(200).meta({
    description: 'Pattern of the tags; `*` matches any characters, and empty is none',
    example: 'v*',
  }),
  branches: z.string().max(200).meta({ description: 'Pattern of the branches', example: 'main' }),
  every: z
    .int()
    .min(1)
    .max(maxEveryMinutes)
    .meta({ description: 'How often svc looks, in minutes', example: 15 }),
  hide_source: z
    .boolean()
    .meta({ description: 'Whether the metadata of versions does not name the Git repository' }),
}

const fingerprint = z.string().max(100).meta({
  description: 'Fingerprint of a key of the SSH server, as `ssh-keygen -l` prints it',
  example: 'SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM',
})

const SourceSchema = z
  .object({
    id: z.int().meta({ description: 'Id of the source', example: 7 }),
    ...settings,
    hook_url: z.url().meta({
      description: 'What the Git server calls after a push',
      example: 'https://svc.example.com/hooks/7',
    }),
    host_keys: z.array(z.string()).meta({
      description: 'Fingerprints of the pinned keys of an SSH server; empty for https',
      example: ['SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM'],
    }),
    host_keys_confirmed: z.boolean().meta({
      description: 'Whether a person has confirmed these keys. Until then the source is not read',
    }),
    made_by: z.string().nullable().meta({
      description: 'Username; null for the command line, "deleted account" after the account was deleted',
      example: 'alice',
    }),
    created_at: Moment.meta({ description: 'When it was added' }),
    looked_at: Moment.nullable().meta({ description: 'When it was read last without a failure' }),
    next_look_at: Moment.meta({ description: 'When it is read next' }),
    failure: z
      .string()
      .nullable()
      .meta({ description: 'Why it cannot be read', example: 'the server does not accept the credentials' }),
    failing_since: Moment.nullable().meta({ description: 'Since when it cannot be read' }),
    counts: z
      .partialRecord(z.enum(refStates), z.int())
      .meta({ description: 'The number of tags and branches in each state', example: { published: 12 } }),
  })
  .meta({ id: 'Source' })

const SourceDraft = z
  .strictObject({
    url: settings.url,
    path: settings.path.optional(),
    tags: settings.tags.optional(),
    branches: settings.branches.optional(),
    every: settings.every.optional(),
    hide_source: settings.hide_source.optional(),
    secret: z.string().max(4096).optional().meta({
      description: 'A token, or `user:password`, for https://. It is stored encrypted',
      example: 'glpat-…',
    }),
    ssh_key: z.string().max(16_384).optional().meta({
      description: 'A private key without a passphrase, for ssh://. It is stored encrypted',
      example: '-----BEGIN OPENSSH PRIVATE KEY-----…',
    }),
    host_key: fingerprint.optional(),
  })
  .meta({ id: 'SourceDraft' })

const hookSecret = z.string().meta({
  description: 'The secret with which the Git server signs its calls. It is shown only once',
  example: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD1P9a9OyCkQk=',
})

const AddedSource = z.object({ ...SourceSchema.shape, hook_secret: hookSecret }).meta({ id: 'AddedSource' })

const Confirmation = z.strictObject({ host_key: fingerprint }).meta({ id: 'SourceConfirmation' })

const HookSecretDraft = z
  .strictObject({
    secret: z.string().min(16).max(200).optional().meta({
      description: 'A secret that the Git server has made, such as a signing token of GitLab',
      example: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD1P9a9OyCkQk=',
    }),
  })
  .meta({ id: 'HookSecretDraft' })

const HookSecret = z.object({ hook_secret: hookSecret }).meta({ id: 'HookSecret' })

const Ref = z
  .object({
    kind: z.enum(['tag', 'branch']).meta({ description: 'Tag or branch' }),
    name: z.string().meta({ description: 'Its name', example: 'v1.0.0' }),
    state: z.enum(refStates).meta({
      description:
        '`published` and `staged`: it is a version; `skipped`: its name is none of a version; `refused`: the version was not accepted; `moved`: the tag names another commit than the version, which stays; `gone`: it is not there any more',
    }),
    reason: z
      .string()
      .nullable()
      .meta({ description: 'Why it is no version', example: 'its name is no version such as 1.0.0' }),
    warnings: z.array(z.string()).meta({
      description: 'Warnings about the version',
      example: ['the submodule lib/other is not in the archive'],
    }),
    commit: z
      .string()
      .nullable()
      .meta({ description: 'Commit of the version', example: '9fceb02d0ae598e95dc970b74767f19372d61af8' }),
    package: z.string().nullable().meta({ description: 'Package of the version', example: 'acme/lib' }),
    version: z.string().nullable().meta({ description: 'Version', example: '1.0.0' }),
    changed_at: Moment.meta({ description: 'When this was found' }),
  })
  .meta({ id: 'SourceRef' })

const SourcePath = RepositoryPath.extend({
  source: rowId.meta({ description: 'Id of the source', example: '7' }),
})

const Queued = z.object({ id: SourceSchema.shape.id }).meta({ id: 'QueuedSource' })

/** The Git sources of a repository: `/api/repositories/<group>/<name>/sources`. */
export async function sourceRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { config, db } = context
  const url = '/repositories/:group/:name/sources'
  const mayRead = guardRepository('readSettings', context)
  const mayAdd = guardRepository('addSource', context)
  const mayManage = guardRepository('manage', context)
  const describe = (source: Source) => describeSource(source, config)

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'listSources',
      tag: 'Sources',
      summary: 'List the Git sources of a repository, the oldest first',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(SourceSchema) },
    }),
    async (request, reply) => {
      const { repositoryId } = mayRead.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listSources(db, repositoryId, part),
        ({ id }) => id,
        describe,
      )
    },
  )

  app.post(
    url,
    endpoint(mayAdd, {
      operationId: 'addSource',
      tag: 'Sources',
      summary: 'Add a Git source to a repository',
      description:
        'It is read at once, and then on its schedule. The keys of an SSH server are pinned now. Without `host_key`, somebody must confirm them before the source is read.',
      params: RepositoryPath,
      body: SourceDraft,
      response: { 201: AddedSource },
    }),
    async (request, reply) => {
      const { repositoryId, by } = mayAdd.granted(request)
      const { every, hide_source, ssh_key, host_key, ...wanted } = request.body
      const { id, hookSecret } = await addSource(
        context,
        { repositoryId, by },
        {
          url: wanted.url,
          path: wanted.path ?? null,
          tags: wanted.tags ?? null,
          branches: wanted.branches ?? null,
          everyMinutes: every ?? null,
          hidesSource: hide_source ?? false,
          secret: wanted.secret ?? null,
          sshKey: ssh_key ?? null,
          hostKey: host_key ?? null,
        },
      )
      const added = await findSource(db, id)
      if (!added) throw notFound('source not found')
      return reply.code(201).send({ ...describe(added), hook_secret: hookSecret })
    },
  )

  app.delete(
    `${url}/:source`,
    endpoint(mayManage, {
      operationId: 'removeSource',
      tag: 'Sources',
      summary: 'Remove a Git source; its versions stay',
      params: SourcePath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { repositoryId, by } = mayManage.granted(request)
      const isRemoved = await removeSource(db, by, { id: request.params.source, repositoryId })
      if (!isRemoved) throw notFound('source not found')
      return reply.code(204).send()
    },
  )

  app.post(
    `${url}/:source/sync`,
    endpoint(mayManage, {
      operationId: 'syncSource',
      tag: 'Sources',
      summary: 'Read a Git source soon',
      description:
        'It responds when the reading is queued. Tags and branches that were refused are judged again.',
      params: SourcePath,
      response: { 202: Queued },
    }),
    async (request, reply) => {
      const { repositoryId } = mayManage.granted(request)
      const { source: id } = request.params
      if (!(await queueSource(db, { id, repositoryId }))) throw notFound('source not found')
      return reply.code(202).send({ id: Number(id) })
    },
  )

  app.post(
    `${url}/:source/confirm`,
    endpoint(mayAdd, {
      operationId: 'confirmSource',
      tag: 'Sources',
      summary: 'Confirm the key that the SSH server of a Git source has shown',
      description: 'The source is read then.',
      params: SourcePath,
      body: Confirmation,
      response: { 202: Queued },
    }),
    async (request, reply) => {
      const { repositoryId, by } = mayAdd.granted(request)
      const { source: id } = request.params
      const confirmation = { id, repositoryId, hostKey: request.body.host_key }
      if (!(await confirmSource(db, by, confirmation))) throw notFound('source not found')
      return reply.code(202).send({ id: Number(id) })
    },
  )

  app.post(
    `${url}/:source/hook-secret`,
    endpoint(mayAdd, {
      operationId: 'replaceHookSecret',
      tag: 'Sources',
      summary: 'Replace the secret of the hooks of a Git source',
      description: 'The former one ends at once.',
      params: SourcePath,
      body: HookSecretDraft,
      response: { 200: HookSecret },
    }),
    async (request) => {
      const { repositoryId, by } = mayAdd.granted(request)
      const wanted = { id: request.params.source, repositoryId, secret: request.body.secret ?? null }
      const secret = await replaceHookSecret(context, by, wanted)
      if (secret === null) throw notFound('source not found')
      return { hook_secret: secret }
    },
  )

  app.get(
    `${url}/:source/refs`,
    endpoint(mayRead, {
      operationId: 'listSourceRefs',
      tag: 'Sources',
      summary: 'List the tags and branches of a Git source, and what became of each',
      params: SourcePath,
      querystring: PageQuery,
      response: { 200: z.array(Ref) },
    }),
    async (request, reply) => {
      const { repositoryId } = mayRead.granted(request)
      const source = await findSource(db, request.params.source)
      if (source?.repositoryId !== repositoryId) throw notFound('source not found')
      return readPage(
        { request, reply, config },
        (part) => listRefs(db, source.id, part),
        keyOfRef,
        describeRef,
      )
    },
  )
}

function describeRef(ref: SourceRef): z.input<typeof Ref> {
  return {
    kind: ref.kind,
    name: ref.name,
    state: ref.state,
    reason: ref.reason,
    warnings: ref.warnings,
    commit: ref.commit,
    package: ref.packageName,
    version: ref.version,
    changed_at: ref.changedAt.toISOString(),
  }
}
