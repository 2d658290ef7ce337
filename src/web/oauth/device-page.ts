import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../context.ts'
import { countAttempt, limitsFrom, takeBackAttempt } from '../../database/failure-limit.ts'
import { networkOf } from '../../domain/client-ip.ts'
import { hashSecret, makeOpaqueId } from '../../domain/secrets.ts'
import { areResourcesOf, insertAuthorizationRequest } from '../../oauth/authorization-requests.ts'
import { findWaitingDevice, readUserCode, type WaitingDevice } from '../../oauth/device-requests.ts'
import { readForm, readQuery, text } from '../forms.ts'
import { PageError } from '../page-error.ts'
import { page } from '../pages.ts'
import { anybody, signedIn, type Visit } from '../visit.ts'
import { showConsent } from './consent.ts'

/** This many wrong codes of an account, and of a network, in 15 minutes are looked up (OPENID 227). */
const wrongCodesPerAccount = 10
const wrongCodesPerNetwork = 30
const windowSeconds = 900

const DeviceForm = z.object({ user_code: text })

const codePage = page<{ userCode: string; problem: string | null }>('oauth/device')
const decidedPage = page<{ isApproved: boolean }>('oauth/device-decided')

/**
 * `/device` asks for the code that a device shows, and then whether the device gets access, on the consent page (OPENID 222,
 * 223, RFC 8628 §3.3). A link with the code asks too: somebody else may have sent it.
 */
export async function devicePages(app: FastifyInstance, context: AppContext): Promise<void> {
  app.head('/device', async (_request, reply) => reply.type('text/html; charset=utf-8').send())

  app.get(
    '/device',
    { exposeHeadRoute: false },
    signedIn(context, (visit, request, reply) =>
      showLinkedDevice(context, visit, request, reply, readQuery(DeviceForm, request).user_code),
    ),
  )

  app.post(
    '/device',
    signedIn(context, { form: '/device' }, (visit, request, reply) =>
      showDevice(context, visit, request, reply, readForm(DeviceForm, request).user_code),
    ),
  )

  for (const [url, isApproved] of [
    ['/device/approved', true],
    ['/device/denied', false],
  ] as const) {
    app.get(
      url,
      anybody(context, async (session, _request, reply) => decidedPage(reply, session, { isApproved })),
    )
  }
}

/**
 * Shows the device of a link. Behind a link of another site the code only fills in the form: otherwise any site could use up
 * the wrong codes of its visitors.
 */
async function showLinkedDevice(
  context: AppContext,
  visit: Visit,
  request: FastifyRequest,
  reply: FastifyReply,
  code: string,
): Promise<FastifyReply> {
  const isOwn = [undefined, 'none', 'same-origin'].includes(request.headers['sec-fetch-site'])
  if (isOwn) return await showDevice(context, visit, request, reply, code)
  return codePage(reply, visit.session, { userCode: shortened(code), problem: null })
}

/** Shows the consent page of the device with this code, or the form for the code. */
async function showDevice(
  context: AppContext,
  { session }: Visit,
  request: FastifyRequest,
  reply: FastifyReply,
  typed: string,
): Promise<FastifyReply> {
  const { db } = context
  if (typed.trim() === '') return codePage(reply, session, { userCode: '', problem: null })
  const accountId = session.account.id
  const userCode = readUserCode(typed)
  const device = await guess(() =>
    userCode === null ? Promise.resolve(null) : findWaitingDevice(db, userCode),
  )
  if (userCode === null || device === null) {
    const problem =
      'No device waits with this code. Compare it with the device: a code is valid for 15 minutes.'
    return codePage(reply.code(422), session, { userCode: shortened(typed), problem })
  }
  if (device.resources && !(await areResourcesOf(db, accountId, device.resources))) {
    const problem =
      'The device asks for access to a registry that does not exist, or that you may not see. Compare the address in its settings.'
    return codePage(reply.code(422), session, { userCode, problem })
  }
  const id = makeOpaqueId()
  const { deviceHash, applicationId, application, scopes, resourceScope, resources, ip, ageSeconds } = device
  const common = { redirectUri: null, scopes, resourceScope, resources }
  const asked = { ...common, accountId, applicationId, state: null }
  const link = `/device?user_code=${userCode}`
  await insertAuthorizationRequest(db, hashSecret(id), { ...asked, link, deviceHash, codeChallenge: null })
  const question = { ...common, id, application, device: { ip, ageSeconds }, link }
  return await showConsent(context, reply, session, question, { search: '', chosen: null })

  /** Counts the code before it is looked up, so that many at once are limited. A right one does not count. */
  async function guess(find: () => Promise<WaitingDevice | null>): Promise<WaitingDevice | null> {
    const limits = [
      ...limitsFrom(networkOf(request.ip), {
        subject: 'device codes',
        attempts: wrongCodesPerNetwork,
        windowSeconds,
      }),
      { subject: `device codes of account ${accountId}`, attempts: wrongCodesPerAccount, windowSeconds },
    ]
    const blockedSeconds = await countAttempt(db, limits)
    if (blockedSeconds > 0) {
      throw new PageError(
        429,
        'Too many wrong codes were entered. Wait 15 minutes, and let the device show a new code.',
        {
          headers: { 'retry-after': String(blockedSeconds) },
        },
      )
    }
    const found = await find()
    if (found !== null) await takeBackAttempt(db, limits)
    return found
  }
}

/** Returns what the field for the code may have of a text. */
function shortened(text: string): string {
  return text.slice(0, 20)
}
