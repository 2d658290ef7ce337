import { generateSecret, generateURI } from 'otplib'
import type pg from 'pg'
import qrcode from 'qrcode-generator'
import type { Config } from '../../config.ts'
import { transaction } from '../../database/database.ts'
import { countAttempt, takeBackAttempt } from '../../database/failure-limit.ts'
import { type KeySettings, openSecret, readSecretKeys, sealSecret } from '../../database/secret-key.ts'
import type { Principal } from '../../domain/principal.ts'
import type { CredentialRefusal } from '../credential-refusal.ts'
import {
  type FactorContext,
  limitsOfFactor,
  missingKey,
  noteFailedFactor,
  tooManyFactors,
  wrongCode,
} from './check-factor.ts'
import { countRecoveryCodes, renewRecoveryCodes } from './recovery-codes.ts'
import { periodSeconds, timeStepOf } from './totp.ts'
import { confirmTotpFactor, findTotpFactor, startTotpFactor, totpOwner } from './totp-factors.ts'

/** The values that an authenticator app needs. */
export interface Enrolment {
  /** The secret in base32, in groups of four letters. */
  secret: string
  /** The same as an `otpauth:` URL. */
  url: string
  /** The URL as a QR code: an SVG element. */
  qrCode: string
}

/** Creates a new secret for an authenticator app. False when the account already has an app. */
export async function startEnrolment(
  { db, config }: { db: pg.Pool; config: KeySettings },
  accountId: string,
): Promise<boolean> {
  const [key] = await readSecretKeys(config)
  return startTotpFactor(db, accountId, sealSecret(key, totpOwner(accountId), generateSecret()))
}

/** Returns the secret of an app that is being set up. Null when there is none, or the server has lost its key. */
export async function findEnrolment(
  { db, config }: { db: pg.Pool; config: KeySettings & Pick<Config, 'baseUrl' | 'site'> },
  account: { id: string; username: string },
): Promise<Enrolment | null> {
  const factor = await findTotpFactor(db, account.id)
  if (!factor || factor.confirmedAt) return null
  const secret = openSecret(await readSecretKeys(config), totpOwner(account.id), factor)
  if (secret === null) return null
  // A colon separates issuer and username in the label, so neither may contain one.
  const issuer = `${config.site.name ?? 'svc'} ${new URL(config.baseUrl).hostname}`.replaceAll(
    /[^\p{L}\p{N} _.-]/gu,
    '',
  )
  const url = generateURI({ issuer, label: account.username, secret, period: periodSeconds })
  return { secret: secret.replace(/.{4}(?=.)/g, '$& '), url, qrCode: renderQrCode(url) }
}

/** The result of the first code: new recovery codes, or the refusal. An account that has recovery codes gets none. */
export type EnrolmentOutcome = { recoveryCodes: string[] } | CredentialRefusal

/**
 * Confirms an authenticator app with its first code. From then on the sign-in asks for codes. With its first factor the
 * account gets recovery codes.
 */
export async function confirmEnrolment(
  context: FactorContext,
  by: Principal,
  accountId: string,
  code: string,
): Promise<EnrolmentOutcome> {
  const { db, origin } = context
  const limits = await limitsOfFactor(db, accountId, 'totp', origin)
  const blockedSeconds = await countAttempt(db, limits)
  if (blockedSeconds > 0) return tooManyFactors(blockedSeconds)
  const factor = await findTotpFactor(db, accountId)
  if (!factor || factor.confirmedAt) return nothingToConfirm
  const timeStep = await timeStepOf(context, accountId, factor, code)
  if (timeStep === 'no key') return missingKey(context.config)
  if (timeStep === null) {
    await noteFailedFactor(db, by, accountId, 'totp')
    return wrongCode
  }
  const confirmed = await transaction(
    db,
    async (tx) => {
      if (!(await confirmTotpFactor(tx, by, accountId, factor, timeStep))) return nothingToConfirm
      const hasCodes = (await countRecoveryCodes(tx, accountId)) > 0
      return { recoveryCodes: hasCodes ? [] : await renewRecoveryCodes(tx, by, accountId) }
    },
    by,
  )
  if ('recoveryCodes' in confirmed) await takeBackAttempt(db, limits, limits)
  return confirmed
}

const nothingToConfirm: CredentialRefusal = {
  status: 409,
  headers: {},
  problem: 'No authenticator app is being set up. Start again.',
}

/** The SVG shows the text as squares only, so it needs no escaping. */
function renderQrCode(text: string): string {
  const code = qrcode(0, 'M')
  code.addData(text)
  code.make()
  return code.createSvgTag({ cellSize: 4, margin: 16, scalable: true })
}
