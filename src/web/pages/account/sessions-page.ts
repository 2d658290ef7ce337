import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { endSessions, type ListedSession, listLatestSessions } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { describeBrowser } from '../../../events/event-words.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'

/** The maximum number of sessions on the page. The button that ends all others also ends those that are not shown. */
const maxShown = 200

interface ShownSession extends ListedSession {
  browser: string
  isCurrent: boolean
}

const sessionsPage = page<{ sessions: ShownSession[] }>('accounts/sessions')

const EndForm = z.object({ session: text })

/** `/settings/sessions`: the browsers that are signed in, and how to end one or all others. */
export async function sessionRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/settings/sessions',
    signedIn(context, async ({ session }, _request, reply) => {
      const current = session.idHash.toString('hex')
      const listed = await listLatestSessions(db, session.account.id, maxShown)
      const sessions = listed.map((one) => ({
        ...one,
        browser: describeBrowser(one.userAgent),
        isCurrent: one.key === current,
      }))
      return sessionsPage(reply, session, { sessions })
    }),
  )

  app.get(
    '/settings/sessions/end',
    signedIn(context, async ({ session }, request, reply) => {
      const { session: key } = readQuery(EndForm, request)
      const listed = await listLatestSessions(db, session.account.id, maxShown)
      const found = listed.find((one) => one.key === key)
      if (!found) throw pageNotFound()
      return confirmationPage(reply, session, {
        title: `End the session of ${describeBrowser(found.userAgent)}?`,
        explanation: `It signed in from ${found.network}, and is signed out at once.`,
        action: '/settings/sessions/end',
        fields: { session: key },
        button: 'End the session',
        ask: null,
        back: '/settings/sessions',
      })
    }),
  )

  app.get(
    '/settings/sessions/end-others',
    signedIn(context, async ({ session }, _request, reply) => {
      return confirmationPage(reply, session, {
        title: 'End all other sessions?',
        explanation:
          'Every browser except this one is signed out at once. Tokens and applications keep working.',
        action: '/settings/sessions/end-others',
        fields: {},
        button: 'End all other sessions',
        ask: null,
        back: '/settings/sessions',
      })
    }),
  )

  app.post(
    '/settings/sessions/end',
    signedIn(context, { form: '/settings/sessions' }, async ({ session, by }, request, reply) => {
      const { session: key } = readForm(EndForm, request)
      const accountId = session.account.id
      const isKey = /^[0-9a-f]{64}$/.test(key)
      const ended = isKey ? await endSessions(db, by, accountId, { key }) : 0
      leaveNotice(request, reply, config, describeEnd(ended))
      return reply.redirect('/settings/sessions', 303)
    }),
  )

  app.post(
    '/settings/sessions/end-others',
    signedIn(context, { form: '/settings/sessions' }, async ({ session, by }, request, reply) => {
      const accountId = session.account.id
      const others = { except: session.idHash }
      const ended = await endSessions(db, by, accountId, others)
      leaveNotice(request, reply, config, describeEnd(ended))
      return reply.redirect('/settings/sessions', 303)
    }),
  )
}

/** Returns the notice after sessions were ended. */
function describeEnd(count: number): string {
  if (count === 0) return 'There was no session to end.'
  return count === 1 ? 'One session has ended.' : `${count} sessions have ended.`
}
