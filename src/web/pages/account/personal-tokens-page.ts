import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import {
  createPersonalToken,
  findPersonalToken,
  listPersonalTokens,
  NotAnAdministratorError,
  type PersonalToken,
  revokePersonalToken,
} from '../../../accounts/personal-tokens.ts'
import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { brokenConstraint } from '../../../database/errors.ts'
import { pageOf } from '../../../domain/paging.ts'
import type { Principal } from '../../../domain/principal.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { readRowId } from '../../../domain/row-id.ts'
import {
  type DescribedScope,
  describeResourceScope,
  describeScopes,
} from '../../../domain/scope-descriptions.ts'
import { listNamedRepositories } from '../../../groups/accessible-repositories.ts'
import { EndedMeanwhileError } from '../../../groups/live-principal.ts'
import { type RepositoryPicker, readPicker } from '../../../groups/repository-choices.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { allScopeChoices, type ScopeChoices } from '../scope-choices.ts'
import {
  enteredTokenForm,
  lifetimesInDays,
  PresetQuery,
  presetForm,
  presets,
  readChoice,
  type TokenChoice,
  type TokenForm,
  tomorrow,
} from './personal-token-form.ts'

/** The number of tokens on a page. A link leads to the next ones. */
const tokensPerPage = 50

const tokensPage = page<{
  tokens: (PersonalToken & { may: DescribedScope[] })[]
  /** The cursor of the next page: an id. Null on the last page. */
  next: string | null
}>('accounts/tokens')

const newTokenPage = page<
  ScopeChoices & {
    form: TokenForm
    problem: string | null
    presets: typeof presets
    lifetimesInDays: readonly number[]
    tomorrow: string
    resourceScopes: typeof resourceScopeChoices
    picker: RepositoryPicker
  }
>('accounts/new-token')

const madeTokenPage = page<{
  name: string
  token: string
  expiresAt: Date | null
  /** The path of the repository that the token is for. Null when it is for several. */
  repository: string | null
  /** Composer stores credentials by host and port, netrc by host only. */
  host: string
  hostname: string
}>('accounts/made-token')

const resourceScopeChoices = (['all', 'public', 'specified'] as const).map((value) => ({
  value,
  words: describeResourceScope(value),
}))

const TokensQuery = PresetQuery.extend({ after: text })
const ActionForm = z.object({ action: text })
const RevokeForm = z.object({ id: text })

const listUrl = '/settings/tokens'
const formUrl = '/settings/tokens/new'

/** `/settings/tokens` lists and revokes personal access tokens, `/settings/tokens/new` creates one (CONTRACT 4.3). */
export async function personalTokenRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    listUrl,
    signedIn(context, async ({ session }, request, reply) => {
      const query = readQuery(TokensQuery, request)
      // Links of older pages and documents name a task: the form was on this page.
      if (query.preset !== '' || query.repository.length > 0) {
        return reply.redirect(request.url.replace(listUrl, formUrl), 302)
      }
      const { rows: tokens, next } = await pageOf(
        (part) => listPersonalTokens(db, session.account.id, part),
        { after: readRowId(query.after), limit: tokensPerPage },
        ({ id }) => id,
      )
      return tokensPage(reply, session, {
        tokens: tokens.map((token) => ({
          ...token,
          may: describeScopes(token.scopes).flatMap(({ scopes }) => scopes),
        })),
        next,
      })
    }),
  )

  app.get(
    formUrl,
    signedIn(context, async ({ session }, request, reply) =>
      showForm(context, reply, session, { form: presetForm(readQuery(PresetQuery, request)), problem: null }),
    ),
  )

  // The URL of the list takes the form too: programs post there.
  for (const url of [listUrl, formUrl]) {
    app.post(
      url,
      signedIn(context, { form: formUrl }, async ({ session, prove, by }, request, reply) => {
        const form = enteredTokenForm(request)
        if (readForm(ActionForm, request).action === 'search') {
          return showForm(context, reply, session, { form, problem: null })
        }
        await prove('makePersonalToken')
        const chosen = await listNamedRepositories(db, session.account.id, form.repositories)
        const choice = readChoice(form, chosen)
        const made = typeof choice === 'string' ? choice : await makeToken(context, by, session, choice)
        if (typeof made === 'string') {
          return showForm(context, reply.code(400), session, { form, problem: made })
        }
        const { host, hostname } = new URL(config.baseUrl)
        const [only, ...others] = form.resourceScope === 'specified' ? chosen : []
        const repository = only && others.length === 0 ? only.path : null
        return madeTokenPage(reply, session, { name: form.name, repository, host, hostname, ...made })
      }),
    )
  }

  app.get(
    '/settings/tokens/revoke',
    signedIn(context, async ({ session }, request, reply) => {
      const id = readRowId(readQuery(RevokeForm, request).id)
      const token = id === null ? null : await findPersonalToken(db, session.account.id, id)
      if (!token) throw pageNotFound()
      return confirmationPage(reply, session, {
        title: `Revoke the token ${token.name}?`,
        explanation: 'Everything that uses it stops working at once. This cannot be undone.',
        action: '/settings/tokens/revoke',
        fields: { id: token.id },
        button: 'Revoke',
        ask: null,
        back: '/settings/tokens',
      })
    }),
  )

  app.post(
    '/settings/tokens/revoke',
    signedIn(context, { form: '/settings/tokens' }, async ({ session, by }, request, reply) => {
      const id = readRowId(readForm(RevokeForm, request).id)
      if (id === null) throw pageNotFound()
      const { id: accountId } = session.account
      const name = await revokePersonalToken(db, by, accountId, { id })
      const notice = name === null ? 'The token was revoked before.' : `The token ${name} was revoked.`
      leaveNotice(request, reply, config, notice)
      return reply.redirect('/settings/tokens', 303)
    }),
  )
}

async function showForm(
  { db }: AppContext,
  reply: FastifyReply,
  session: Session,
  shown: { form: TokenForm; problem: string | null },
): Promise<FastifyReply> {
  const { repositories: chosen, search } = shown.form
  return newTokenPage(reply, session, {
    ...shown,
    presets,
    lifetimesInDays,
    tomorrow: tomorrow(),
    ...allScopeChoices(),
    resourceScopes: resourceScopeChoices,
    picker: await readPicker(db, session.account.id, { search, chosen }),
  })
}

/** Creates a token, which is shown only once. Returns a sentence when the form has a problem. */
async function makeToken(
  { config, db }: AppContext,
  by: Principal,
  session: Session,
  choice: TokenChoice,
): Promise<{ token: string; expiresAt: Date | null } | string> {
  const { id: accountId } = session.account
  try {
    return await createPersonalToken(db, config, by, { accountId, ...choice })
  } catch (error) {
    // The page shows nothing more to a session that has ended.
    if (error instanceof EndedMeanwhileError) throw error
    if (error instanceof Refusal) return error.sentence
    if (error instanceof NotAnAdministratorError) return error.sentence
    if (brokenConstraint(error) !== 'personal_token_name_is_taken') throw error
    return `You already have a token named “${choice.name}”.`
  }
}
