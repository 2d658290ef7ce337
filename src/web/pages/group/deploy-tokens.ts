import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import { brokenConstraint } from '../../../database/errors.ts'
import { describeRule } from '../../../database/rules.ts'
import { pageOf } from '../../../domain/paging.ts'
import type { DeployRight } from '../../../domain/permissions.ts'
import { isPlainText } from '../../../domain/plain-text.ts'
import type { Principal } from '../../../domain/principal.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { rowId } from '../../../domain/row-id.ts'
import {
  accountReader,
  listRepositoriesOfGroup,
  listVisiblePaths,
} from '../../../groups/accessible-repositories.ts'
import {
  createDeployToken,
  type DeployToken,
  type DeployTokenPlace,
  findDeployToken,
  listDeployTokens,
  revokeDeployToken,
} from '../../../groups/deploy-tokens.ts'
import { findVisibleGroup, type VisibleGroup } from '../../../groups/groups.ts'
import { EndedMeanwhileError } from '../../../groups/live-principal.ts'
import { findRepositoryByPath, type VisibleRepository } from '../../../groups/repositories.ts'
import { readForm, readQuery, text, textList } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { lifetimesInDays, readExpiry, tomorrow } from '../account/personal-token-form.ts'
import { managedGroup, type PagesContext, permittedRepository } from '../permit.ts'

const tokensPerPage = 50
/** The maximum number of repositories with a check box. In a larger group, people type the names of the others. */
const boxes = 100
const maxChosen = 500

const DeployTokenForm = z.object({
  name: text,
  right: z.enum(['read', 'publish', 'report']).default('read'),
  resource_scope: z.enum(['all', 'specified']).default('specified'),
  repository: textList,
  more_repositories: text,
  lifetime_in_days: text,
  expires_on: text,
})
type SentForm = z.output<typeof DeployTokenForm>
const emptyForm: SentForm = {
  name: '',
  right: 'read',
  resource_scope: 'specified',
  repository: [],
  more_repositories: '',
  lifetime_in_days: '90',
  expires_on: '',
}

const ListQuery = z.object({ after: text })
const RevokeForm = z.object({ id: rowId })

/** The group or repository that the page manages. */
interface Place {
  /** `acme` or `acme/php`. */
  path: string
  /** The group that the tokens belong to. */
  group: VisibleGroup
  /** Null for a group. */
  repository: VisibleRepository | null
  target: DeployTokenPlace
}

/** A deploy token. Its repositories are those that the visitor may see. */
interface ShownToken extends DeployToken {
  mayRevoke: boolean
  hiddenCount: number
}

const tokensPage = page<{
  place: Place
  repository: VisibleRepository | null
  tokens: ShownToken[]
  /** The cursor of the next page: an id. Null on the last page. */
  next: string | null
}>('pages/deploy-tokens')
const newTokenPage = page<{
  place: Place
  repository: VisibleRepository | null
  form: SentForm
  problem: string | null
  choices: string[]
  hasMoreChoices: boolean
  lifetimesInDays: readonly number[]
  tomorrow: string
}>('pages/new-deploy-token')
const madeTokenPage = page<{
  name: string
  token: string
  right: DeployRight
  expiresAt: Date | null
  host: string
  back: string
}>('pages/made-deploy-token')

type PlaceRequest = FastifyRequest<{ Params: { group: string; name?: string } }>
interface Route {
  Params: PlaceRequest['params']
}

/**
 * `/<group>/-/deploy-tokens` and `/<group>/<name>/-/deploy-tokens`: tokens that belong to a group, not to a person. Below
 * `…/new` is the form that creates one.
 */
export async function deployTokenPageRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context

  for (const url of ['/:group/-/deploy-tokens', '/:group/:name/-/deploy-tokens']) {
    app.get<Route>(
      url,
      signedIn(context, async ({ session }, request, reply) => {
        const place = await placeOf(request, session)
        const { after } = readQuery(ListQuery, request)
        const { rows, next } = await pageOf(
          (part) => listDeployTokens(db, place.target, part),
          { after, limit: tokensPerPage },
          ({ id }) => id,
        )
        const tokens = await showRepositories(session, place, rows)
        return tokensPage(reply, session, { place, repository: place.repository, tokens, next })
      }),
    )

    app.get<Route>(
      `${url}/new`,
      signedIn(context, async ({ session }, request, reply) => {
        const place = await placeOf(request, session)
        return showForm(reply, session, place, { form: emptyForm, problem: null })
      }),
    )

    // The URL of the list takes the form too: programs post there.
    for (const posted of [url, `${url}/new`]) {
      app.post<Route>(
        posted,
        signedIn(
          context,
          { form: (request) => `${placeUrl(request.params)}/new` },
          async ({ session, by, prove }, request, reply) => {
            const place = await placeOf(request, session)
            const form = readForm(DeployTokenForm, request)
            await prove('makeDeployToken')
            const made = await makeToken(by, place, form)
            if (typeof made === 'string') {
              return showForm(reply.code(400), session, place, { form, problem: made })
            }
            const { host } = new URL(config.baseUrl)
            const back = placeUrl(request.params)
            return madeTokenPage(reply, session, {
              name: form.name.trim(),
              right: form.right,
              host,
              back,
              ...made,
            })
          },
        ),
      )
    }

    app.get<Route>(
      `${url}/revoke`,
      signedIn(context, async ({ session }, request, reply) => {
        const { target } = await placeOf(request, session)
        const { id } = readQuery(RevokeForm, request)
        const token = await findDeployToken(db, target, id)
        if (!token) throw pageNotFound()
        const back = placeUrl(request.params)
        return confirmationPage(reply, session, {
          title: `Revoke the deploy token ${token.name}?`,
          explanation: 'It stops working at once. Build servers that use it need another token.',
          action: `${back}/revoke`,
          fields: { id },
          button: 'Revoke',
          ask: null,
          back,
        })
      }),
    )

    app.post<Route>(
      `${url}/revoke`,
      signedIn(
        context,
        { form: (request) => placeUrl(request.params) },
        async ({ session, by }, request, reply) => {
          const back = placeUrl(request.params)
          const { target } = await placeOf(request, session)
          const { id } = readForm(RevokeForm, request)
          const name = await revokeDeployToken(db, by, target, { id })
          if (name === null) throw pageNotFound()
          leaveNotice(request, reply, config, `The deploy token ${name} was revoked.`)
          return reply.redirect(back, 303)
        },
      ),
    )
  }

  async function placeOf({ params }: PlaceRequest, session: Session): Promise<Place> {
    const { group: groupName, name } = params
    if (name === undefined) {
      const group = await managedGroup(db, groupName, session, 'makeDeployToken')
      return { path: groupName, group, repository: null, target: { groupId: group.id, repositoryId: null } }
    }
    const repository = await permittedRepository(db, { group: groupName, name }, session, 'manage')
    const group = await findVisibleGroup(db, groupName, session.account.id)
    if (!group) throw pageNotFound()
    const target = { groupId: group.id, repositoryId: repository.id }
    return { path: repository.path, group, repository, target }
  }

  /** Creates a token. Returns a sentence when the form has a mistake. */
  async function makeToken(
    by: Principal,
    place: Place,
    form: SentForm,
  ): Promise<{ token: string; expiresAt: Date | null } | string> {
    const name = form.name.trim()
    if (name === '' || Array.from(name).length > 100) return 'Give the token a name of 1 to 100 characters.'
    if (!isPlainText(name)) return 'Give the token a name without control characters.'
    const chosen = await readRepositories(place, form)
    if (typeof chosen === 'string') return chosen
    const expiry = readExpiry({
      lifetimeInDays: form.lifetime_in_days,
      expiresOn: form.expires_on,
    })
    if (typeof expiry === 'object' && 'problem' in expiry) return expiry.problem
    const wanted = { groupId: place.target.groupId, name, right: form.right, ...chosen, expiry }
    try {
      return await createDeployToken(context, by, wanted)
    } catch (error) {
      // The page shows nothing more to a session that has ended.
      if (error instanceof EndedMeanwhileError) throw error
      if (error instanceof Refusal) return error.sentence
      if (brokenConstraint(error) !== 'deploy_token_name_is_taken') throw error
      return describeRule('deploy_token_name_is_taken')
    }
  }

  async function readRepositories(
    { path, repository }: Place,
    form: SentForm,
  ): Promise<{ repositories: { id: string; path: string }[] | 'all' } | string> {
    if (repository) return { repositories: [repository] }
    const names = [...new Set([...form.repository, ...form.more_repositories.split(/[\s,]+/)])]
    const given = names.filter((name) => name !== '')
    if (form.resource_scope === 'all') {
      if (given.length === 0) return { repositories: 'all' }
      return 'You selected repositories. Also choose “Only these repositories”, or clear the selection.'
    }
    if (given.length === 0) return 'Choose at least one repository.'
    if (given.length > maxChosen) return `Choose at most ${maxChosen} repositories.`
    const found: { id: string; path: string }[] = []
    for (const name of given) {
      const wanted = name.startsWith(`${path}/`) ? name : `${path}/${name}`
      const known = await findRepositoryByPath(db, wanted)
      if (!known) return `The group has no repository “${name}”.`
      found.push(known)
    }
    return { repositories: found }
  }

  async function showForm(
    reply: FastifyReply,
    session: Session,
    place: Place,
    shown: { form: SentForm; problem: string | null },
  ): Promise<FastifyReply> {
    const reader = accountReader(session.account.id)
    const choices = await pageOf(
      async (part) => (place.repository ? [] : listRepositoriesOfGroup(db, reader, place.path, part)),
      { after: null, limit: boxes },
      ({ path }) => path,
    )
    return newTokenPage(reply, session, {
      ...shown,
      place,
      repository: place.repository,
      choices: choices.rows.map(({ path }) => path.slice(place.path.length + 1)),
      hasMoreChoices: choices.next !== null,
      lifetimesInDays,
      tomorrow: tomorrow(),
    })
  }

  /** Leaves out repositories that an admin of one repository may not see. A member of the group sees all of them. */
  async function showRepositories(
    session: Session,
    place: Place,
    tokens: readonly DeployToken[],
  ): Promise<ShownToken[]> {
    const paths = [...new Set(tokens.flatMap(({ repositories }) => repositories))]
    const visible = new Set(
      place.group.role === null ? await listVisiblePaths(db, session.account.id, paths) : paths,
    )
    return tokens.map((token) => {
      const repositories = token.repositories.filter((path) => visible.has(path))
      const hiddenCount = token.repositories.length - repositories.length
      return { ...token, mayRevoke: mayRevoke(place, token), repositories, hiddenCount }
    })
  }
}

/** An admin of a repository may revoke only tokens for this repository alone. Other tokens are used elsewhere too. */
function mayRevoke({ repository }: Place, { isForAll, repositories }: DeployToken): boolean {
  if (!repository) return true
  return !isForAll && repositories.length === 1 && repositories[0] === repository.path
}

function placeUrl({ group, name }: PlaceRequest['params']): string {
  return name === undefined ? `/${group}/-/deploy-tokens` : `/${group}/${name}/-/deploy-tokens`
}
