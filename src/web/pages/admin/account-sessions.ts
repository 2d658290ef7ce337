import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import {
  findPersonalToken,
  listTokensOf,
  type PersonalToken,
  revokePersonalToken,
} from '../../../accounts/personal-tokens.ts'
import { endSessions, type ListedSession, listLatestSessions } from '../../../accounts/sessions.ts'
import type { Queryable } from '../../../database/database.ts'
import { rowId } from '../../../domain/row-id.ts'
import { describeBrowser } from '../../../events/event-words.ts'
import { readForm, readQuery } from '../../forms.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { confirmationPage } from '../../pages.ts'
import { type AdminContext, accountOfPage, goOn } from './administrator.ts'

/** The maximum number of sessions, and of tokens, on the page of an account. The commands list all. */
const maxShown = 50

// The whole key: a prefix would end several sessions, and an empty one all of them.
const SessionForm = z.object({ session: z.string().regex(/^[0-9a-f]{64}$/) })
const TokenForm = z.object({ id: rowId })

/** The sessions and the personal access tokens of an account. */
export interface SessionsAndTokens {
  sessions: (ListedSession & { browser: string })[]
  tokens: PersonalToken[]
}

interface Route {
  Params: { username: string }
}

/**
 * `/admin/accounts/<username>/{sessions/end,tokens/revoke}`: ends one session and revokes one token of an account, as
 * `svc session revoke` and `svc token revoke` do.
 */
export async function accountSessionRoutes(app: FastifyInstance, context: AdminContext): Promise<void> {
  const { db, byOf, sessionOf } = context

  app.get<Route>('/admin/accounts/:username/sessions/end', async (request, reply) => {
    const { session: key } = readQuery(SessionForm, request)
    const { id, username } = await accountOfPage(context, request.params.username)
    const found = (await readSessionsAndTokens(db, id)).sessions.find((one) => one.key === key)
    if (!found) throw pageNotFound()
    const url = `/admin/accounts/${username}`
    return confirmationPage(reply, sessionOf(request), {
      title: `End the session of ${username}: ${found.browser}?`,
      explanation: `It signed in from ${found.network}, and is signed out at once.`,
      action: `${url}/sessions/end`,
      fields: { session: key },
      button: 'End the session',
      ask: null,
      back: url,
    })
  })

  app.post<Route>('/admin/accounts/:username/sessions/end', async (request, reply) => {
    const { session: key } = readForm(SessionForm, request)
    const { id, username } = await accountOfPage(context, request.params.username)
    const by = byOf(request)
    const ended = await endSessions(db, by, id, { key })
    if (ended === 0) throw new PageError(409, 'This session has ended already.')
    return goOn(context, reply, `/admin/accounts/${username}`, `One session of ${username} has ended.`)
  })

  app.get<Route>('/admin/accounts/:username/tokens/revoke', async (request, reply) => {
    const { id: tokenId } = readQuery(TokenForm, request)
    const { id, username } = await accountOfPage(context, request.params.username)
    const token = await findPersonalToken(db, id, tokenId)
    if (!token) throw pageNotFound()
    const url = `/admin/accounts/${username}`
    return confirmationPage(reply, sessionOf(request), {
      title: `Revoke the token ${token.name} of ${username}?`,
      explanation: 'Everything that uses it stops working at once. This cannot be undone.',
      action: `${url}/tokens/revoke`,
      fields: { id: tokenId },
      button: 'Revoke',
      ask: null,
      back: url,
    })
  })

  app.post<Route>('/admin/accounts/:username/tokens/revoke', async (request, reply) => {
    const { id: tokenId } = readForm(TokenForm, request)
    const { id, username } = await accountOfPage(context, request.params.username)
    const by = byOf(request)
    const name = await revokePersonalToken(db, by, id, { id: tokenId })
    if (name === null) throw new PageError(409, 'This token was revoked already.')
    const sentence = `The token ${name} of ${username} was revoked.`
    return goOn(context, reply, `/admin/accounts/${username}`, sentence)
  })
}

/** Reads the sessions of an account, last seen first, and its personal access tokens, at most 50 each. */
export async function readSessionsAndTokens(db: Queryable, accountId: string): Promise<SessionsAndTokens> {
  const sessions = await listLatestSessions(db, accountId, maxShown)
  return {
    sessions: sessions.map((one) => ({ ...one, browser: describeBrowser(one.userAgent) })),
    tokens: await listTokensOf(db, accountId, { after: null, limit: maxShown }),
  }
}
