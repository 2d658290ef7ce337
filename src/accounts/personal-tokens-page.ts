import type { FastifyInstance, FastifyReply } from 'fastify'
import { brokenConstraint } from '../database.ts'
import { notFound } from '../http/page-error.ts'
import { field, readQuery } from '../http/page-form.ts'
import { page } from '../http/pages.ts'
import type { Parts } from '../parts.ts'
import { listRepositoriesOf, type RepositoryOfAccount } from '../registry/repositories.ts'
import { type WordedScopes, wordResourceScope, wordScopes } from '../scope-wording.ts'
import { allScopes } from '../scopes.ts'
import { hashSecret, makeSecret } from '../secrets.ts'
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
import { askToSignIn, readSession } from './visitor.ts'

const tokensPage = page<{
  tokens: (PersonalToken & { wordedScopes: WordedScopes[] })[]
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
  words: wordResourceScope(value),
}))

/** `/settings/tokens`: personal access tokens (DESIGN §4). */
export async function personalTokenRoutes(app: FastifyInstance, parts: Parts): Promise<void> {
  const { config, db } = parts

  app.get('/settings/tokens', async (request, reply) => {
    const session = await readSession(parts, request)
    if (!session) return askToSignIn(parts, request, reply)
    const query = readQuery(request)
    const wasRevoked = query.has('revoked')
    return showTokens(parts, reply, session, { form: presetForm(query), problem: null, wasRevoked })
  })

  app.post('/settings/tokens', async (request, reply) => {
    const session = await readSession(parts, request)
    if (!session) return askToSignIn(parts, request, reply)
    const form = sentForm(request.body)
    const choice = readChoice(form, await listRepositoriesOf(db, session.account.id))
    const made = typeof choice === 'string' ? choice : await makeToken(parts, session, choice)
    if (typeof made === 'string') {
      return showTokens(parts, reply.code(400), session, { form, problem: made, wasRevoked: false })
    }
    const { host, hostname } = new URL(config.baseUrl)
    return newTokenPage(reply, session, { name: form.name, host, hostname, ...made })
  })

  app.post('/settings/tokens/revoke', async (request, reply) => {
    const session = await readSession(parts, request)
    if (!session) return askToSignIn(parts, request, reply)
    const id = field(request.body, 'id')
    if (!/^\d{1,18}$/.test(id)) throw notFound()
    await revokePersonalToken(db, session.account.id, id)
    return reply.redirect('/settings/tokens?revoked', 303)
  })
}

async function showTokens(
  { db }: Parts,
  reply: FastifyReply,
  session: Session,
  shown: { form: TokenForm; problem: string | null; wasRevoked: boolean },
): Promise<FastifyReply> {
  const tokens = await listPersonalTokens(db, session.account.id)
  return tokensPage(reply, session, {
    ...shown,
    tokens: tokens.map((token) => ({ ...token, wordedScopes: wordScopes(token.scopes) })),
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
  { db }: Parts,
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
  const read = wordScopes(allScopes.filter((scope) => scope.endsWith(':r'))).flatMap(({ scopes }) => scopes)
  return wordScopes(allScopes).map(({ title, scopes }) => ({
    title,
    scopes: scopes.flatMap((widest) => [...read.filter(({ scope }) => `${scope}w` === widest.scope), widest]),
  }))
}
