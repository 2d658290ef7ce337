import type { FastifyInstance, FastifyReply } from 'fastify'
import type { AppContext } from '../context.ts'
import { brokenConstraint } from '../database/database.ts'
import { type DescribedScopes, describeResourceScope, describeScopes } from '../domain/scope-descriptions.ts'
import { allScopes } from '../domain/scopes.ts'
import { hashSecret, makeSecret } from '../domain/secrets.ts'
import { notFound } from '../http/page-error.ts'
import { field, readQuery } from '../http/page-form.ts'
import { page } from '../http/pages.ts'
import { listRepositoriesOf, type RepositoryOfAccount } from '../repositories/repositories.ts'
import {
  lifetimesInDays,
  presetForm,
  presets,
  readChoice,
  sentForm,
  type TokenChoice,
  type TokenForm,
  tomorrow,
} from './personal-token-form.ts'
import {
  insertPersonalToken,
  listPersonalTokens,
  type PersonalToken,
  revokePersonalToken,
} from './personal-tokens.ts'
import type { Session } from './sessions.ts'
import { readSession, redirectToSignIn } from './visitor.ts'

const tokensPage = page<{
  tokens: (PersonalToken & { wordedScopes: DescribedScopes[] })[]
  form: TokenForm
  problem: string | null
  wasRevoked: boolean
  presets: typeof presets
  lifetimesInDays: readonly number[]
  tomorrow: string
  choices: ReturnType<typeof scopeChoices>
  resourceScopes: typeof resourceScopeChoices
  repositories: RepositoryOfAccount[]
}>('accounts/tokens')

const newTokenPage = page<{
  name: string
  token: string
  expiresAt: Date | null
  /** Composer keeps credentials by host and port, netrc by host alone. */
  host: string
  hostname: string
}>('accounts/new-token')

const resourceScopeChoices = (['all', 'public', 'specified'] as const).map((value) => ({
  value,
  words: describeResourceScope(value),
}))

/** `/settings/tokens`: personal access tokens (DESIGN §4). */
export async function personalTokenRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get('/settings/tokens', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply)
    const query = readQuery(request)
    const wasRevoked = query.has('revoked')
    return showTokens(context, reply, session, { form: presetForm(query), problem: null, wasRevoked })
  })

  app.post('/settings/tokens', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply)
    const form = sentForm(request.body)
    const choice = readChoice(form, await listRepositoriesOf(db, session.account.id))
    const made = typeof choice === 'string' ? choice : await makeToken(context, session, choice)
    if (typeof made === 'string') {
      return showTokens(context, reply.code(400), session, { form, problem: made, wasRevoked: false })
    }
    const { host, hostname } = new URL(config.baseUrl)
    return newTokenPage(reply, session, { name: form.name, host, hostname, ...made })
  })

  app.post('/settings/tokens/revoke', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply, '/settings/tokens')
    const id = field(request.body, 'id')
    if (!/^\d{1,18}$/.test(id)) throw notFound()
    await revokePersonalToken(db, session.account.id, id)
    return reply.redirect('/settings/tokens?revoked', 303)
  })
}

async function showTokens(
  { db }: AppContext,
  reply: FastifyReply,
  session: Session,
  shown: { form: TokenForm; problem: string | null; wasRevoked: boolean },
): Promise<FastifyReply> {
  const tokens = await listPersonalTokens(db, session.account.id)
  return tokensPage(reply, session, {
    ...shown,
    tokens: tokens.map((token) => ({ ...token, wordedScopes: describeScopes(token.scopes) })),
    presets,
    lifetimesInDays,
    tomorrow: tomorrow(),
    choices: scopeChoices(),
    resourceScopes: resourceScopeChoices,
    repositories: await listRepositoriesOf(db, session.account.id),
  })
}

/** The new token, which is shown this once, or why it cannot be. */
async function makeToken(
  { db }: AppContext,
  session: Session,
  choice: TokenChoice,
): Promise<{ token: string; expiresAt: Date | null } | string> {
  const token = makeSecret('personal')
  try {
    const tokenHash = hashSecret(token)
    const expiresAt = await insertPersonalToken(db, { accountId: session.account.id, tokenHash, ...choice })
    return { token, expiresAt }
  } catch (error) {
    if (brokenConstraint(error) !== 'personal_token_name_is_taken') throw error
    return `You already have a token named “${choice.name}”.`
  }
}

/** Every scope in words, in groups: a read permission before the read-write one that covers it. */
function scopeChoices() {
  const read = describeScopes(allScopes.filter((scope) => scope.endsWith(':r'))).flatMap(
    ({ scopes }) => scopes,
  )
  return describeScopes(allScopes).map(({ title, scopes }) => ({
    title,
    scopes: scopes.flatMap((widest) => [...read.filter(({ scope }) => `${scope}w` === widest.scope), widest]),
  }))
}
