import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import { pageOf } from '../../../domain/paging.ts'
import { errcode, Refusal } from '../../../domain/refusal.ts'
import { EndedMeanwhileError } from '../../../groups/live-principal.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { type Forge, forges, guessForge, hookPageOf } from '../../../sources/forges.ts'
import { keyOfRef, listRefs, type RefState, refStates, type SourceRef } from '../../../sources/source-refs.ts'
import {
  addSource,
  confirmSource,
  findSource,
  fingerprintsOf,
  hookUrlOf,
  listSources,
  maxEveryMinutes,
  type NewSource,
  queueSource,
  removeSource,
  replaceHookSecret,
  type Source,
  SourceRefusal,
} from '../../../sources/sources.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { type PagesContext, permittedRepository } from '../permit.ts'

const sourcesPerPage = 50
const refsPerPage = 50

const ListQuery = z.object({ after: text })
const RefsQuery = z.object({ after: text, state: z.enum(refStates).optional().catch(undefined) })
const SourceForm = z.object({
  url: text,
  path: text,
  tags: text,
  branches: text,
  every: text,
  secret: text,
  ssh_key: text,
  host_key: text,
  hide_source: text,
})
type SentForm = z.output<typeof SourceForm>
type Field = keyof SentForm
const emptyForm: SentForm = {
  url: '',
  path: '',
  tags: '*',
  branches: '*',
  every: '15',
  secret: '',
  ssh_key: '',
  host_key: '',
  hide_source: '',
}
const ConfirmForm = z.object({ host_key: text })
const HookSecretForm = z.object({ hook_secret: text })

/** The field of the form for each setting. */
const fieldOf: Record<keyof NewSource, Field> = {
  url: 'url',
  path: 'path',
  tags: 'tags',
  branches: 'branches',
  everyMinutes: 'every',
  hidesSource: 'hide_source',
  secret: 'secret',
  sshKey: 'ssh_key',
  hostKey: 'host_key',
}

/** How to tell a Git server of a hook. */
interface Hook {
  url: string
  /** Null when it was shown before. */
  secret: string | null
  forges: { forge: Forge; name: string; page: string; isLikely: boolean }[]
}

const sourcesPage = page<{
  repository: VisibleRepository
  sources: Source[]
  nameOf: typeof nameOf
  states: readonly RefState[]
  /** The cursor of the next page: an id. Null on the last page. */
  next: string | null
}>('pages/sources')

const newSourcePage = page<{
  repository: VisibleRepository
  form: SentForm
  maxEveryMinutes: number
  /** Why the form was refused. `field` is null when it is not about one of them. */
  problem: { words: string; field: Field | null } | null
}>('pages/new-source')

const sourcePage = page<{
  repository: VisibleRepository
  source: Source
  nameOf: typeof nameOf
  fingerprints: string[]
  hook: Hook
  refs: SourceRef[]
  states: readonly RefState[]
  state: RefState | null
  isContinued: boolean
  /** The cursor of the next page of tags and branches. Null on the last page. */
  next: string | null
}>('pages/source')

const shownSecretPage = page<{
  repository: VisibleRepository
  source: Source
  nameOf: typeof nameOf
  fingerprints: string[]
  hook: Hook
  isNew: boolean
}>('pages/source-hook')

const hookSecretPage = page<{
  repository: VisibleRepository
  source: Source
  nameOf: typeof nameOf
  problem: string | null
}>('pages/new-hook-secret')

interface Route {
  Params: { group: string; name: string }
}
interface SourceRoute {
  Params: { group: string; name: string; source: string }
}

/**
 * `/<group>/<name>/-/sources`: the Git sources of a repository and their state. Below `…/new` is the form that adds one, and
 * below `…/<id>` a page with its tags, branches and hook.
 */
export async function sourcePageRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context
  const url = '/:group/:name/-/sources'
  const urlOf = ({ path }: Pick<VisibleRepository, 'path'>) => `/${path}/-/sources`
  const pageOfSource = ({ params }: { params: SourceRoute['Params'] }) =>
    `/${params.group}/${params.name}/-/sources/${encodeURIComponent(params.source)}`

  app.get<Route>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'manage')
      const { after } = readQuery(ListQuery, request)
      const { rows: sources, next } = await pageOf(
        (part) => listSources(db, repository.id, part),
        { after, limit: sourcesPerPage },
        ({ id }) => id,
      )
      return sourcesPage(reply, session, { repository, sources, nameOf, states: refStates, next })
    }),
  )

  app.get<Route>(
    `${url}/new`,
    signedIn(context, async ({ session, prove }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'addSource')
      // A form with a token or a key is not kept until somebody has proven who they are. So they do that first.
      await prove('addSource')
      return newSourcePage(reply, session, { repository, form: emptyForm, maxEveryMinutes, problem: null })
    }),
  )

  app.post<Route>(
    `${url}/new`,
    signedIn(
      context,
      { form: ({ params }) => `/${params.group}/${params.name}/-/sources/new` },
      async ({ session, by, prove }, request, reply) => {
        const repository = await permittedRepository(db, request.params, session, 'addSource')
        const form = readForm(SourceForm, request)
        await prove('addSource')
        try {
          const added = await addSource(context, { repositoryId: repository.id, by }, readSource(form))
          const about = { repository, id: added.id, secret: added.hookSecret, isNew: true }
          return await showSecret(reply, session, about)
        } catch (error) {
          if (!(error instanceof Refusal) || error instanceof EndedMeanwhileError) throw error
          const problem = { words: error.sentence, field: fieldAt(error) }
          // Secrets never go back to the browser.
          const shown = { ...form, secret: '', ssh_key: '' }
          return newSourcePage(reply.code(400), session, {
            repository,
            form: shown,
            maxEveryMinutes,
            problem,
          })
        }
      },
    ),
  )

  app.get<SourceRoute>(
    `${url}/:source`,
    signedIn(context, async ({ session }, request, reply) => {
      const { repository, source } = await managedSource(session, request.params)
      const { after, state = null } = readQuery(RefsQuery, request)
      const { rows: refs, next } = await pageOf(
        (part) => listRefs(db, source.id, part, state),
        { after, limit: refsPerPage },
        keyOfRef,
      )
      return sourcePage(reply, session, {
        repository,
        source,
        nameOf,
        fingerprints: fingerprintsOf(source),
        hook: hookOf(source, null),
        refs,
        states: refStates,
        state,
        isContinued: after !== '',
        next,
      })
    }),
  )

  app.post<SourceRoute>(
    `${url}/:source/sync`,
    signedIn(context, { form: pageOfSource }, async ({ session }, request, reply) => {
      const { repository, source } = await managedSource(session, request.params)
      if (!(await queueSource(db, { id: source.id, repositoryId: repository.id }))) throw pageNotFound()
      leaveNotice(
        request,
        reply,
        config,
        'svc looks at the Git repository now. Reload this page in a moment.',
      )
      return reply.redirect(`${urlOf(repository)}/${source.id}`, 303)
    }),
  )

  app.post<SourceRoute>(
    `${url}/:source/confirm`,
    signedIn(context, { form: pageOfSource }, async ({ session, by, prove }, request, reply) => {
      const repository = await permittedRepository(db, request.params, session, 'addSource')
      const { host_key: hostKey } = readForm(ConfirmForm, request)
      await prove('addSource')
      const source = await sourceOf(repository, request.params)
      const confirmation = { id: source.id, repositoryId: repository.id, hostKey }
      if (!(await confirmSource(db, by, confirmation))) throw pageNotFound()
      leaveNotice(request, reply, config, 'The key is confirmed. svc reads the Git repository now.')
      return reply.redirect(`${urlOf(repository)}/${source.id}`, 303)
    }),
  )

  app.get<SourceRoute>(
    `${url}/:source/hook-secret`,
    signedIn(context, async ({ session, prove }, request, reply) => {
      const { repository, source } = await managedSource(session, request.params)
      await prove('addSource')
      return hookSecretPage(reply, session, { repository, source, nameOf, problem: null })
    }),
  )

  app.post<SourceRoute>(
    `${url}/:source/hook-secret`,
    signedIn(
      context,
      { form: (request) => `${pageOfSource(request)}/hook-secret` },
      async ({ session, by, prove }, request, reply) => {
        const repository = await permittedRepository(db, request.params, session, 'addSource')
        const { hook_secret: given } = readForm(HookSecretForm, request)
        await prove('addSource')
        const source = await sourceOf(repository, request.params)
        const wanted = {
          id: source.id,
          repositoryId: repository.id,
          secret: given.trim() === '' ? null : given,
        }
        try {
          const secret = await replaceHookSecret(context, by, wanted)
          if (secret === null) throw pageNotFound()
          if (wanted.secret === null)
            return await showSecret(reply, session, { repository, id: source.id, secret, isNew: false })
        } catch (error) {
          if (!(error instanceof Refusal) || error.errcode !== errcode.invalidArgument) throw error
          return hookSecretPage(reply.code(400), session, {
            repository,
            source,
            nameOf,
            problem: error.sentence,
          })
        }
        leaveNotice(request, reply, config, 'Hooks now need the secret that you entered.')
        return reply.redirect(`${urlOf(repository)}/${source.id}`, 303)
      },
    ),
  )

  app.get<SourceRoute>(
    `${url}/:source/remove`,
    signedIn(context, async ({ session }, request, reply) => {
      const { repository, source } = await managedSource(session, request.params)
      const here = `${urlOf(repository)}/${source.id}`
      return confirmationPage(reply, session, {
        title: `Remove the Git source ${nameOf(source)}?`,
        explanation:
          'Its versions stay. New tags and branches are no longer published, and its hook is refused.',
        action: `${here}/remove`,
        fields: {},
        button: 'Remove',
        ask: null,
        back: here,
      })
    }),
  )

  app.post<SourceRoute>(
    `${url}/:source/remove`,
    signedIn(context, { form: pageOfSource }, async ({ session, by }, request, reply) => {
      const { repository, source } = await managedSource(session, request.params)
      if (!(await removeSource(db, by, { id: source.id, repositoryId: repository.id }))) throw pageNotFound()
      leaveNotice(request, reply, config, 'The Git source was removed. Its versions stay.')
      return reply.redirect(urlOf(repository), 303)
    }),
  )

  /** Returns a source of a repository that the person manages. Throws 403, and 404 when there is none. */
  async function managedSource(session: Session, params: SourceRoute['Params']) {
    const repository = await permittedRepository(db, params, session, 'manage')
    return { repository, source: await sourceOf(repository, params) }
  }

  async function sourceOf({ id }: VisibleRepository, params: SourceRoute['Params']): Promise<Source> {
    const source = await findSource(db, params.source)
    if (source?.repositoryId !== id) throw pageNotFound()
    return source
  }

  /** Shows the secret of hooks, once. */
  async function showSecret(
    reply: FastifyReply,
    session: Session,
    { id, secret, ...about }: { repository: VisibleRepository; id: string; secret: string; isNew: boolean },
  ) {
    const source = await findSource(db, id)
    if (!source) throw pageNotFound()
    const hook = hookOf(source, secret)
    return shownSecretPage(reply, session, {
      ...about,
      source,
      nameOf,
      fingerprints: fingerprintsOf(source),
      hook,
    })
  }

  function hookOf(source: Source, secret: string | null): Hook {
    const likely = guessForge(source.url)
    return {
      url: hookUrlOf(config, source.id),
      secret,
      forges: (Object.keys(forges) as Forge[]).map((forge) => ({
        forge,
        name: forges[forge],
        page: hookPageOf(forge, source.url),
        isLikely: forge === likely,
      })),
    }
  }
}

function readSource(form: SentForm): NewSource {
  const orNull = (value: string) => (value.trim() === '' ? null : value.trim())
  return {
    url: form.url.trim(),
    path: form.path.trim(),
    tags: form.tags.trim(),
    branches: form.branches.trim(),
    everyMinutes: Number(form.every),
    hidesSource: form.hide_source === 'yes',
    secret: orNull(form.secret),
    sshKey: orNull(form.ssh_key),
    hostKey: orNull(form.host_key),
  }
}

/** Returns the field that a refusal is about. What the Git server says is about the URL. */
function fieldAt(error: Refusal): Field | null {
  if (error instanceof SourceRefusal) return fieldOf[error.setting]
  return error.errcode === errcode.invalidArgument || error.errcode === errcode.alreadyExists ? 'url' : null
}

/** Names a source for people: by the host and path of its Git repository, and by its folder. */
function nameOf({ url, path }: Source): string {
  const name = url.replace(/^\w+:\/\/(?:[^/@]*@)?/, '').replace(/(?:\.git)?\/*$/, '')
  return path === '' ? name : `${name}, ${path}`
}
