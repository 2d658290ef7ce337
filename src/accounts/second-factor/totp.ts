import { verifySync } from 'otplib'
import type pg from 'pg'
import { type KeySettings, keyFileOf, openSecret, readSecretKeys } from '../../database/secret-key.ts'
import type { Log } from '../../domain/log.ts'
import { findTotpFactor, spendTimeStep, type TotpFactor, totpOwner } from './totp-factors.ts'

/** The period of a code (RFC 6238 §4). Codes of the period before and after are accepted too, because clocks differ. */
export const periodSeconds = 30

/** What a check of a code needs: the keys of secrets, and the log for a key that is missing. */
interface TotpContext {
  config: KeySettings
  log: Log
}

/**
 * Checks a code of the authenticator app of an account, and uses it up. Returns `no key` when the server does not have the key
 * of the app's secret.
 */
export async function spendCode(
  context: TotpContext & { db: pg.Pool },
  accountId: string,
  code: string,
): Promise<boolean | 'no key'> {
  const factor = await findTotpFactor(context.db, accountId)
  if (!factor?.confirmedAt) return false
  const timeStep = await timeStepOf(context, accountId, factor, code)
  if (timeStep === 'no key') return timeStep
  return timeStep !== null && spendTimeStep(context.db, accountId, timeStep)
}

/**
 * Returns the time step of a right code, or null for a wrong one. Returns `no key` when the server does not have the
 * key of the secret. The log then says what to do.
 */
export async function timeStepOf(
  { config, log }: TotpContext,
  accountId: string,
  factor: TotpFactor,
  code: string,
): Promise<number | null | 'no key'> {
  const digits = code.replace(/\s/g, '')
  if (!/^\d{6}$/.test(digits)) return null
  const secret = openSecret(await readSecretKeys(config), totpOwner(accountId), factor)
  if (secret === null) {
    log.error({ accountId, keyId: factor.keyId.toString('hex') }, explainMissingKey(config))
    return 'no key'
  }
  const found = verifySync({
    secret,
    token: digits,
    epoch: factor.nowSeconds,
    period: periodSeconds,
    epochTolerance: periodSeconds,
  })
  return found.valid && 'timeStep' in found ? found.timeStep : null
}

/** Explains why secrets cannot be decrypted, and what an operator can do. */
export function explainMissingKey(config: KeySettings): string {
  const place = config.secretKey === null ? `the key file ${keyFileOf(config)}` : 'SECRET_KEY'
  return `A second factor is encrypted with another key than ${place}. Restore the old key (as SECRET_KEY_PREVIOUS, or as the key file), or remove the person's factors with svc account reset-factors.`
}
