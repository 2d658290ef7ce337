import type { FastifyInstance } from 'fastify'
import type pg from 'pg'
import * as z from 'zod'
import {
  disableAccount,
  enableAccount,
  revokeAllAccess,
  updateAccount,
} from '../../../accounts/account-lifecycle.ts'
import { resetFactors } from '../../../accounts/second-factor/factors.ts'
import { endSessions } from '../../../accounts/sessions.ts'
import type { Principal } from '../../../domain/principal.ts'
import { readForm, readQuery } from '../../forms.ts'
import { PageError } from '../../page-error.ts'
import { type Confirmation, confirmationPage } from '../../pages.ts'
import { type AdminContext, accountOfPage, endEverythingChoice, goOn } from './administrator.ts'

const ActForm = z.object({
  act: z.enum([
    'disable',
    'enable',
    'make-admin',
    'unmake-admin',
    'reset-factors',
    'end-sessions',
    'revoke-all',
  ]),
  end_everything: z.literal('yes').optional(),
})

interface Route {
  Params: { username: string }
}

/** `/admin/accounts/<username>`: acts on an account, such as disabling it. Each act asks for a confirmation first. */
export async function accountActRoutes(app: FastifyInstance, context: AdminContext): Promise<void> {
  const { db, byOf, sessionOf } = context

  app.get<Route>('/admin/accounts/:username/ask', async (request, reply) => {
    const { act } = readQuery(ActForm, request)
    const { username } = await accountOfPage(context, request.params.username)
    const { title, button, explanation, choice } = questions[act]
    const url = `/admin/accounts/${username}`
    return confirmationPage(reply, sessionOf(request), {
      title: title(username),
      explanation,
      action: url,
      fields: { act },
      button,
      ask: null,
      ...(choice && { choice }),
      back: url,
    })
  })

  app.post<Route>('/admin/accounts/:username', async (request, reply) => {
    const { act, end_everything } = readForm(ActForm, request)
    const { id, username } = await accountOfPage(context, request.params.username)
    const session = sessionOf(request)
    if (id === session.account.id) {
      throw new PageError(409, 'You cannot do this to your own account. Ask another administrator.')
    }
    const by = byOf(request)
    if (act === 'disable' && end_everything === 'yes') {
      await disableAccount(db, by, id, true)
      const sentence = `${username} is disabled, and everything that could act for it has ended.`
      return goOn(context, reply, `/admin/accounts/${username}`, sentence)
    }
    await acts[act].run(db, by, id)
    return goOn(context, reply, `/admin/accounts/${username}`, `${username} ${acts[act].done}`)
  })
}

/** What is asked before an act. */
const questions: Record<
  z.output<typeof ActForm>['act'],
  Pick<Confirmation, 'button' | 'explanation' | 'choice'> & { title: (username: string) => string }
> = {
  disable: {
    title: (username) => `Disable ${username}?`,
    button: 'Disable',
    explanation:
      'The account loses its sessions, and its tokens stop at once. When it is enabled, its tokens work again.',
    choice: endEverythingChoice,
  },
  enable: {
    title: (username) => `Enable ${username}?`,
    button: 'Enable',
    explanation: 'The person can sign in again. Tokens that were not revoked work again.',
  },
  'make-admin': {
    title: (username) => `Make ${username} a site administrator?`,
    button: 'Make site administrator',
    explanation:
      'A site administrator may do everything in the browser, and with tokens that are made for it. Existing tokens and applications get no new rights.',
  },
  'unmake-admin': {
    title: (username) => `Remove the administrator role of ${username}?`,
    button: 'Remove the administrator role',
    explanation: 'The account keeps its roles in groups and repositories. Its admin tokens end.',
  },
  'reset-factors': {
    title: (username) => `Remove the second factor of ${username}?`,
    button: 'Remove the second factor',
    explanation: 'Its recovery codes are removed too. The next sign-in asks for the password only.',
  },
  'end-sessions': {
    title: (username) => `End all sessions of ${username}?`,
    button: 'End all sessions',
    explanation: 'Every browser of the account is signed out at once.',
  },
  'revoke-all': {
    title: (username) => `Revoke all tokens and applications of ${username}?`,
    button: 'Revoke all tokens and applications',
    explanation:
      'Everything that uses them stops working at once. This cannot be undone. Deploy tokens and invitations that the account made stay.',
  },
}

const acts = {
  disable: {
    run: (db: pg.Pool, by: Principal, id: string) => disableAccount(db, by, id),
    done: 'is disabled. Its sessions have ended, and its tokens no longer work.',
  },
  enable: {
    run: (db: pg.Pool, by: Principal, id: string) => enableAccount(db, by, id),
    done: 'is enabled. Its tokens that were not revoked work again.',
  },
  'make-admin': {
    run: (db: pg.Pool, by: Principal, id: string) => updateAccount(db, by, id, { isAdmin: true }),
    done: 'is a site administrator.',
  },
  'unmake-admin': {
    run: (db: pg.Pool, by: Principal, id: string) => updateAccount(db, by, id, { isAdmin: false }),
    done: 'is no longer a site administrator.',
  },
  'reset-factors': {
    run: (db: pg.Pool, by: Principal, id: string) => resetFactors(db, by, id),
    done: 'no longer has a second factor. The next sign-in asks for the password only.',
  },
  'end-sessions': {
    run: (db: pg.Pool, by: Principal, id: string) => endSessions(db, by, id, 'all'),
    done: 'is signed out everywhere.',
  },
  'revoke-all': {
    run: (db: pg.Pool, by: Principal, id: string) => revokeAllAccess(db, by, id),
    done: 'no longer has tokens or applications.',
  },
} as const
