import type pg from 'pg'
import type { Config } from '../../config.ts'
import { type Queryable, transaction } from '../../database/database.ts'
import { type AttemptLimit, countAttempt, limitsFrom, takeBackAttempt } from '../../database/failure-limit.ts'
import type { KeySettings } from '../../database/secret-key.ts'
import type { Log } from '../../domain/log.ts'
import { observing, outcomeOfCheck, signIns } from '../../domain/observations.ts'
import type { Principal } from '../../domain/principal.ts'
import { anAdministrator } from '../../domain/site.ts'
import { countEvent } from '../../events/counted-events.ts'
import { type CredentialRefusal, tooManyAttempts } from '../credential-refusal.ts'
import type { SignInProof } from '../sessions.ts'
import { findKnownOrigin, type SignInOrigin } from '../sign-in-origins.ts'
import { spendRecoveryCode } from './recovery-codes.ts'
import { spendCode } from './totp.ts'

/** The kind of a second factor. */
export type FactorKind = NonNullable<SignInProof['secondFactor']>

/** The second factor that a person entered. One of the two is empty. */
export interface TypedFactor {
  /** Six digits of the authenticator app. */
  code: string
  recoveryCode: string
}

/** What a check of a second factor needs: parts of the server, and the browser that sent the factor. */
export interface FactorContext {
  config: KeySettings & Pick<Config, 'site'>
  db: pg.Pool
  log: Log
  origin: SignInOrigin
}

/**
 * Checks a code of the authenticator app, or a recovery code, and uses it up. Returns null when it is right, or the
 * refusal. Wrong codes are limited (see `limitsOfFactor`), and written as identity events.
 */
export function spendFactor(
  context: FactorContext,
  by: Principal,
  accountId: string,
  typed: TypedFactor,
): Promise<CredentialRefusal | null> {
  return observing(
    signIns,
    kindOfTyped(typed),
    () => countAndCheckFactor(context, by, accountId, typed),
    (refusal) => outcomeOfCheck(refusal?.status ?? null),
  )
}

async function countAndCheckFactor(
  context: FactorContext,
  by: Principal,
  accountId: string,
  typed: TypedFactor,
): Promise<CredentialRefusal | null> {
  const { db, origin } = context
  const kind = kindOfTyped(typed)
  const limits = await limitsOfFactor(db, accountId, kind, origin)
  const blockedSeconds = await countAttempt(db, limits)
  if (blockedSeconds > 0) return tooManyFactors(blockedSeconds)
  const checked =
    kind === 'totp'
      ? await spendCode(context, accountId, typed.code)
      : await transaction(db, (tx) => spendRecoveryCode(tx, by, accountId, typed.recoveryCode), by)
  if (checked === 'no key') {
    await takeBackAttempt(db, limits)
    return missingKey(context.config)
  }
  if (checked) {
    await takeBackAttempt(db, limits, limits)
    return null
  }
  await noteFailedFactor(db, by, accountId, kind)
  return kind === 'totp' ? wrongCode : wrongRecoveryCode
}

/** Returns which factor was typed. */
export function kindOfTyped({ recoveryCode }: TypedFactor): 'totp' | 'recovery-code' {
  return recoveryCode === '' ? 'totp' : 'recovery-code'
}

/** The refusal of a wrong code of an authenticator app. */
export const wrongCode: CredentialRefusal = {
  status: 403,
  headers: {},
  problem: 'This code is wrong, or it was used before. Enter the code that your app shows now.',
}

const wrongRecoveryCode: CredentialRefusal = {
  status: 403,
  headers: {},
  problem: 'This recovery code is wrong, or it was used before.',
}

/** Counts a wrong code or passkey in the events of the account. */
export async function noteFailedFactor(
  db: Queryable,
  by: Principal,
  accountId: string,
  kind: FactorKind,
): Promise<void> {
  await countEvent(db, by, { action: 'second-factor-failed', accountId, kind })
}

/** The refusal when the server does not have the key of a secret. */
export function missingKey({ site }: Pick<Config, 'site'>): CredentialRefusal {
  return {
    status: 503,
    headers: {},
    problem: `Codes of your authenticator app cannot be checked: this server does not have the key that its secret was encrypted with. Tell ${anAdministrator(site)}. The log of the server says what to do. A recovery code or a passkey still works.`,
  }
}

/**
 * Returns the limits of wrong second factors of an account, the broadest first. Each kind is counted separately. A browser
 * that has signed in to the account has its own limit, so nobody who knows the password can lock its owner out. All other
 * browsers share the limit of the app, because there are only a million codes. Recovery codes and passkeys cannot be
 * guessed, so each network has its own limit.
 */
export async function limitsOfFactor(
  db: Queryable,
  accountId: string,
  kind: FactorKind,
  origin: SignInOrigin,
): Promise<AttemptLimit[]> {
  const { isKnownDevice } = await findKnownOrigin(db, accountId, origin)
  const limit = { subject: `${kind} of account ${accountId}`, attempts: 10, windowSeconds: 900 }
  if (isKnownDevice)
    return [{ ...limit, subject: `${limit.subject} from browser ${origin.deviceHash?.toString('hex')}` }]
  return kind === 'totp' ? [limit] : limitsFrom(origin.network, limit)
}

/** Returns the refusal while too many wrong second factors block further ones. */
export function tooManyFactors(seconds: number): CredentialRefusal {
  return tooManyAttempts(seconds, 'Too many attempts failed.', ', or in another way')
}
