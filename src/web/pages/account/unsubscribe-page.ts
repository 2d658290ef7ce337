import { fastifyCookie as cookie } from '@fastify/cookie'
import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { unsubscribe } from '../../../notifications/choices.ts'
import { topics } from '../../../notifications/topics.ts'
import { findUnsubscription, type Subscription } from '../../../notifications/unsubscribe-link.ts'
import { readQuery, text } from '../../forms.ts'
import { handleInTurn } from '../../network-turns.ts'
import { PageError } from '../../page-error.ts'
import { pagePolicy, setPageHeaders, showError } from '../../page-scope.ts'
import { nobody, page } from '../../pages.ts'
import { addScope } from '../../scope.ts'

const unsubscribePage = page<{
  /** What the link ends, such as `mails about releases`. */
  what: string
  token: string
  isDone: boolean
}>('accounts/unsubscribe')

// The token is in the query, because the log contains the path.
const TokenQuery = z.object({ token: text })
const maxBodyBytes = 16 * 1024

/**
 * `/unsubscribe`: the link of a mail that ends such mails, without a sign-in. Opening it only shows a button, because programs
 * that check the links of a mail open it too. The POST of the button, or of a mail program (RFC 8058), needs neither a cookie
 * nor a token of a form: the link itself is the proof. The body is not read.
 */
export async function unsubscribeRoutes(app: FastifyInstance, { db }: AppContext): Promise<void> {
  await addScope(app, 'unsubscribe', async (scope) => {
    handleInTurn(scope)
    await scope.register(cookie)
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: maxBodyBytes }, async () => ({}))
    scope.addHook('onRequest', async (_request, reply) => setPageHeaders(reply, pagePolicy))
    scope.setErrorHandler(showError)
    scope.pageUrls.note(scope)
    scope.get('/unsubscribe', async (request, reply) => {
      const { token } = readQuery(TokenQuery, request)
      const { what } = await readToken(token)
      return unsubscribePage(reply, nobody, { what: describe(what), token, isDone: false })
    })

    scope.post('/unsubscribe', async (request, reply) => {
      const { token } = readQuery(TokenQuery, request)
      const { accountId, what } = await readToken(token)
      await unsubscribe(db, accountId, what)
      return unsubscribePage(reply, nobody, { what: describe(what), token, isDone: true })
    })
  })

  async function readToken(token: string): Promise<{ accountId: string; what: Subscription }> {
    const found = await findUnsubscription(db, token)
    if (found) return found
    throw new PageError(404, 'This link is not complete. Copy all of it from the mail.', {
      next: { url: '/settings/notifications', label: 'Choose what you are told' },
    })
  }
}

function describe(what: Subscription): string {
  return what === 'digest' ? 'the daily digest' : `mails about ${topics[what].words.toLowerCase()}`
}
