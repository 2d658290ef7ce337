import type { FastifyReply, FastifyRequest } from 'fastify'
import {
  type Credentials,
  findCredentials,
  findCredentialsById,
  listLogins,
  normalizeLogin,
  renewHash,
} from '../../../accounts/accounts.ts'
import {
  HashQueueFullError,
  hashPassword,
  isPassword,
  mayUsePassword,
  needsRehash,
} from '../../../accounts/passwords.ts'
import { countRefusedSignIn } from '../../../accounts/refused-sign-ins.ts'
import { endSessions, findSession, insertSession, type SignInProof } from '../../../accounts/sessions.ts'
import {
  findKnownOrigin,
  originLifetimeSeconds,
  rememberOrigin,
  type SignInOrigin,
} from '../../../accounts/sign-in-origins.ts'
import type { Config } from '../../../config.ts'
import type { AppContext } from '../../../context.ts'
import type { Queryable } from '../../../database/database.ts'
import {
  type AttemptLimit,
  clearAttempts,
  countAttempt,
  limitsFrom,
  takeBackAttempt,
} from '../../../database/failure-limit.ts'
import { networkOf, widerNetworkOf } from '../../../domain/client-ip.ts'
import { observing, outcomeOfCheck, signIns } from '../../../domain/observations.ts'
import { hashSecret, makeOpaqueId } from '../../../domain/secrets.ts'
import { clearCookie, readCookie, setCookie } from '../../cookies.ts'
import { browserOf, principalOf } from '../../principal.ts'
import { signInOriginOf } from '../../sign-in-origin.ts'
import { findReturn } from './return-path.ts'

/** The reason why a sign-in was rejected, with the status and headers of the page. */
export interface SignInRefusal {
  status: 403 | 429
  headers: Readonly<Record<string, string>>
  problem: string
  /** True after too many wrong passwords. */
  isLocked?: true
}

/**
 * Checks a username or email with its password. An unknown account costs the same work as a known one, and is limited
 * in the same way, so neither time nor limits show which accounts exist (CONTRACT 8.4). Whom `allowed` excludes is
 * treated like an unknown account: nobody learns whether their password is right.
 */
export async function checkSignIn(
  db: Queryable,
  login: string,
  password: string,
  origin: SignInOrigin,
  allowed: Pick<Config, 'passwordSignIn'> = { passwordSignIn: 'on' },
): Promise<Credentials | SignInRefusal> {
  const found = await findCredentials(db, login)
  // Run the same statements for an unknown account. No account has the id 0.
  const accountId = found?.accountId ?? '0'
  const credentials = found && mayUsePassword(allowed, found.isAdmin) ? found : null
  const { isKnownDevice, isKnownNetwork } = await findKnownOrigin(db, accountId, origin)
  if (isKnownDevice)
    return checkPassword(db, credentials, password, { own: [limitOfDevice(accountId, origin)] })
  const { network, own, everywhere } = limitsOfName(login, origin)
  const limits = isKnownNetwork ? { network, own } : { network, own, everywhere }
  return checkPassword(db, credentials, password, limits)
}

/** Checks the current password of a signed-in account. Only its own sessions can use up this limit. */
export async function confirmPassword(
  db: Queryable,
  accountId: string,
  password: string,
): Promise<Credentials | SignInRefusal> {
  const credentials = await findCredentialsById(db, accountId)
  return checkPassword(db, credentials, password, { own: [limitOfConfirmation(accountId)] })
}

/**
 * Starts a session after the check of the password, and stores the browser and its network. Returns the session's
 * cookie. Null when the password was changed in the meantime: then there is no session. Without a proof, the session goes
 * on after a change of the password.
 */
export async function startSession(
  { config, db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  credentials: Credentials,
  proof: SignInProof | null,
): Promise<string | null> {
  const origin = signInOriginOf(request, config)
  const { isKnownDevice } = await findKnownOrigin(db, credentials.accountId, origin)
  // The browser that creates an account is not reported as a new one.
  const isNewBrowser = !isKnownDevice && proof?.method !== 'invitation'
  const by = browserOf(request, credentials.accountId)
  const sessionId = await insertSession(db, by, credentials, {
    network: origin.network,
    userAgent: by.userAgent,
    isConfirmed: proof?.isRecent !== false,
    signIn: proof && { proof, isNewBrowser },
  })
  if (sessionId === null) return null
  setCookie(reply, config, 'session', sessionId)
  await rememberBrowser({ config, db }, request, reply, credentials.accountId)
  return sessionId
}

/** Counts a refused sign-in in the events: those for wrong passwords, and those during a lock. */
export async function noteRefusedSignIn(
  db: Queryable,
  request: FastifyRequest,
  login: string,
  { status, isLocked }: SignInRefusal,
): Promise<void> {
  const by = browserOf(request, null)
  const network = networkOf(request.ip)
  if (status === 403) return countRefusedSignIn(db, by, 'sign-in-failed', login, network)
  // Behind IPv6, the wider network may be locked: each of its 65,536 networks would write an event.
  const locked = widerNetworkOf(network) ?? network
  if (isLocked) await countRefusedSignIn(db, by, 'sign-in-locked', login, locked)
}

/**
 * Hashes the password again if its hash has other parameters than the current ones. Returns the current credentials.
 */
export async function renewPasswordHash(
  db: Queryable,
  credentials: Credentials,
  password: string,
): Promise<Credentials> {
  if (credentials.passwordHash === null || !needsRehash(credentials.passwordHash)) return credentials
  try {
    const passwordHash = await hashPassword(password)
    const isRenewed = await renewHash(db, credentials, passwordHash)
    return isRenewed ? { ...credentials, passwordHash } : credentials
  } catch (error) {
    // Keep the old hash. The next sign-in tries again.
    if (!(error instanceof HashQueueFullError)) throw error
    return credentials
  }
}

/** The limits of one attempt, the broadest first. A correct password resets `own`. */
interface SignInLimits {
  network?: AttemptLimit[]
  own: AttemptLimit[]
  everywhere?: AttemptLimit[]
}

/** Counts the attempt, then checks the password. */
function checkPassword(
  db: Queryable,
  credentials: Credentials | null,
  password: string,
  limits: SignInLimits,
): Promise<Credentials | SignInRefusal> {
  return observing(
    signIns,
    'password',
    () => countAndCheckPassword(db, credentials, password, limits),
    (checked) => {
      if (!('problem' in checked)) return outcomeOfCheck(null)
      return checked.status === 429 && !checked.isLocked ? 'other' : outcomeOfCheck(checked.status)
    },
  )
}

async function countAndCheckPassword(
  db: Queryable,
  credentials: Credentials | null,
  password: string,
  { network = [], own, everywhere = [] }: SignInLimits,
): Promise<Credentials | SignInRefusal> {
  const limits = [...network, ...own, ...everywhere]
  const blockedSeconds = await countAttempt(db, limits)
  if (blockedSeconds > 0) return tooManyAttempts(blockedSeconds)
  let isRight: boolean
  try {
    isRight = await isPassword(password, credentials?.passwordHash ?? null)
  } catch (error) {
    if (!(error instanceof HashQueueFullError)) throw error
    await takeBackAttempt(db, limits)
    return { status: 429, headers: { 'retry-after': `${error.retryAfterSeconds}` }, problem: error.sentence }
  }
  if (!credentials || !isRight) return wrongPassword()
  await takeBackAttempt(db, limits, own)
  return credentials
}

/** The attempts for one name from one network or browser (CONTRACT 8.4). */
const attemptsForOne = 10

/**
 * The limit of a browser that has signed in to the account before. It is separate, so that nobody else can use it up,
 * not even on the same network.
 */
function limitOfDevice(accountId: string, { deviceHash }: SignInOrigin): AttemptLimit {
  const device = deviceHash?.toString('hex')
  const subject = `sign-in to account ${accountId} from browser ${device}`
  return { subject, attempts: attemptsForOne, windowSeconds: 900 }
}

/**
 * The limits of other browsers, the broadest first. They count the typed name, also if there is no such account. If
 * username and email shared a count, the limit would show that they belong to one account. `everywhere` is counted only
 * while `own` allows the attempt, so one network cannot use it up.
 */
function limitsOfName(login: string, { network }: SignInOrigin): Required<SignInLimits> {
  const name = normalizeLogin(login)
  return {
    network: limitsFrom(network, { subject: 'sign-in', attempts: 100, windowSeconds: 900 }),
    own: limitsFrom(network, { subject: `sign-in as ${name}`, attempts: attemptsForOne, windowSeconds: 900 }),
    everywhere: [{ subject: `sign-in as ${name}`, attempts: 100, windowSeconds: 3600 }],
  }
}

/** The limit of the password of a signed-in account. */
function limitOfConfirmation(accountId: string): AttemptLimit {
  return { subject: `password of account ${accountId}`, attempts: attemptsForOne, windowSeconds: 900 }
}

/**
 * Lets the browser that reset the password of an account sign in at once: it is known from now on, and the failed
 * attempts that made its person forget the password, or guess at it, no longer count.
 */
export async function admitAfterReset(
  { config, db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  accountId: string,
): Promise<void> {
  await rememberBrowser({ config, db }, request, reply, accountId)
  const origin = signInOriginOf(request, config)
  const limits = (await listLogins(db, accountId)).flatMap((login) => {
    const { own, everywhere } = limitsOfName(login, origin)
    return [...own, ...everywhere]
  })
  await clearAttempts(db, [...limits, limitOfDevice(accountId, origin), limitOfConfirmation(accountId)])
}

/** Stores the browser and its network as known to the account. A new browser gets a cookie. */
async function rememberBrowser(
  { config, db }: Pick<AppContext, 'config' | 'db'>,
  request: FastifyRequest,
  reply: FastifyReply,
  accountId: string,
): Promise<void> {
  const { networkHash } = signInOriginOf(request, config)
  const device = readCookie(request, config, 'device') ?? makeOpaqueId()
  await rememberOrigin(db, accountId, [networkHash, hashSecret(device)])
  setCookie(reply, config, 'device', device, originLifetimeSeconds)
}

function wrongPassword(): SignInRefusal {
  return { status: 403, headers: {}, problem: 'This username and password do not match.' }
}

function tooManyAttempts(seconds: number): SignInRefusal {
  const minutes = Math.ceil(seconds / 60)
  const problem = `Too many wrong passwords. Try again in ${minutes === 1 ? 'a minute' : `${minutes} minutes`}.`
  return { status: 429, headers: { 'retry-after': `${seconds}` }, problem, isLocked: true }
}

/**
 * Starts the session after all steps of a sign-in, and ends the earlier session of the browser. Returns the cookie of
 * the new session. Null when the password was changed in the meantime. Call `redirectBack` next.
 */
export async function completeSignIn(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  credentials: Credentials,
  proof: SignInProof,
): Promise<string | null> {
  const session = await startSession(context, request, reply, credentials, proof)
  if (session === null) return null
  await endSession(context, request)
  clearCookie(reply, context.config, 'visit')
  return session
}

/** Ends the session of the request's browser. */
export async function endSession({ config, db }: AppContext, request: FastifyRequest): Promise<void> {
  const id = readCookie(request, config, 'session')
  const session = id === null ? null : await findSession(db, id)
  if (!session) return
  const by = principalOf(request, session)
  await endSessions(db, by, session.account.id, { idHash: session.idHash }, 'sign-out')
}

/** Redirects to the page that required the sign-in, or to the home page. */
export async function redirectBack(
  { db }: AppContext,
  reply: FastifyReply,
  returnId: string,
): Promise<FastifyReply> {
  return reply.redirect((await findReturn(db, returnId)) ?? '/', 303)
}
