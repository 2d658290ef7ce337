import type { Config } from '../config.ts'
import type { Queryable } from '../database/database.ts'
import {
  type AttemptLimit,
  clearAttempts,
  countAttempt,
  limitsFrom,
  takeBackAttempt,
} from '../database/failure-limit.ts'
import { observing, outcomeOfCheck, signIns } from '../domain/observations.ts'
import type { Principal } from '../domain/principal.ts'
import { type CountedAction, countEvent } from '../events/counted-events.ts'
import {
  type Credentials,
  findCredentials,
  findCredentialsById,
  hasLogin,
  likeliestFirst,
  listLogins,
  normalizeLogin,
  renewHash,
} from './accounts.ts'
import { type CredentialRefusal, tooManyAttempts } from './credential-refusal.ts'
import { HashQueueFullError, hashPassword, isPassword, mayUsePassword, needsRehash } from './passwords.ts'
import { findKnownOrigin, type SignInOrigin } from './sign-in-origins.ts'

/**
 * Checks a username or email with its password. An unknown account costs the same work as a known one, and is limited
 * in the same way, so neither time nor limits show which accounts exist (CONTRACT 8.4). Whom `allowed` excludes is
 * treated like an unknown account: nobody learns whether their password is right. Without `allowed` it excludes nobody,
 * as for the password that links an account to a provider.
 */
export async function checkSignIn(
  db: Queryable,
  login: string,
  password: string,
  origin: SignInOrigin,
  allowed: Pick<Config, 'passwordSignIn'> = { passwordSignIn: 'on' },
): Promise<Credentials | CredentialRefusal> {
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
): Promise<Credentials | CredentialRefusal> {
  const credentials = await findCredentialsById(db, accountId)
  return checkPassword(db, credentials, password, { own: [limitOfConfirmation(accountId)] })
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

/**
 * Forgets the failed attempts of a person who has reset the password: those that made them forget it, or guess at it, no
 * longer count for this browser and network.
 */
export async function clearFailedSignIns(
  db: Queryable,
  accountId: string,
  origin: SignInOrigin,
): Promise<void> {
  const limits = (await listLogins(db, accountId)).flatMap((login) => {
    const { own, everywhere } = limitsOfName(login, origin)
    return [...own, ...everywhere]
  })
  await clearAttempts(db, [...limits, limitOfDevice(accountId, origin), limitOfConfirmation(accountId)])
}

/**
 * Counts a failed or locked sign-in with this username or email: see `countEvent`. An unknown name is not stored, because
 * it may be a mistyped password: these have one event for each network and hour together.
 */
export async function countRefusedSignIn(
  db: Queryable,
  by: Principal,
  action: Extract<CountedAction, 'sign-in-failed' | 'sign-in-locked'>,
  login: string,
  network: string,
): Promise<void> {
  const { rows } = await db.query<{ id: string }>(
    `select id from account where ${hasLogin} ${likeliestFirst} limit 1`,
    [normalizeLogin(login)],
  )
  await countEvent(db, by, { action, accountId: rows[0]?.id ?? null, network })
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
): Promise<Credentials | CredentialRefusal> {
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
): Promise<Credentials | CredentialRefusal> {
  const limits = [...network, ...own, ...everywhere]
  const blockedSeconds = await countAttempt(db, limits)
  if (blockedSeconds > 0)
    return { ...tooManyAttempts(blockedSeconds, 'Too many wrong passwords.'), isLocked: true }
  let isRight: boolean
  try {
    isRight = await isPassword(password, credentials?.passwordHash ?? null)
  } catch (error) {
    if (!(error instanceof HashQueueFullError)) throw error
    await takeBackAttempt(db, limits)
    return { status: 429, headers: { 'retry-after': `${error.retryAfterSeconds}` }, problem: error.sentence }
  }
  if (!credentials || !isRight) return wrongPassword
  await takeBackAttempt(db, limits, own)
  return credentials
}

const wrongPassword: CredentialRefusal = {
  status: 403,
  headers: {},
  problem: 'This username and password do not match.',
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
