import { generateSecret, generateURI } from 'otplib'
import type pg from 'pg'
import qrcode from 'qrcode-generator'
import type { Config } from '../../config.ts'
import { transaction } from '../../database/database.ts'
import { countAttempt, takeBackAttempt } from '../../database/failure-limit.ts'
import {
  type KeySettings,
  openSecret,
  readSecretKeys,
  type SealedSecret,
  sealSecret,
} from '../../database/secret-key.ts'
import type { Principal } from '../../domain/principal.ts'
import { lockAccount } from '../accounts.ts'
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
import {
  confirmTotpFactor,
  findTotpFactor,
  replaceTotpFactor,
  startTotpFactor,
  type TotpFactor,
  totpOwner,
} from './totp-factors.ts'

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

/** The settings that an enrolment needs. */
type EnrolmentConfig = KeySettings & Pick<Config, 'baseUrl' | 'site'>

/** Returns the secret of an app that is being set up. Null when there is none, or the server has lost its key. */
export async function findEnrolment(
  { db, config }: { db: pg.Pool; config: EnrolmentConfig },
  account: { id: string; username: string },
): Promise<Enrolment | null> {
  const factor = await findTotpFactor(db, account.id)
  if (!factor || factor.confirmedAt) return null
  const secret = openSecret(await readSecretKeys(config), totpOwner(account.id), factor)
  return secret === null ? null : describe(config, account, secret)
}

/** The secret of an app that replaces another one. The form sends `sealed` back, so nothing is stored before the first code. */
export interface Replacement extends Enrolment {
  sealed: string
}

/** Returns the replacement that a form has sent back, else one with a new secret. */
export async function openReplacement(
  { config }: { config: EnrolmentConfig },
  account: { id: string; username: string },
  sent: string,
): Promise<Replacement> {
  const known = await openSealed({ config }, account.id, sent)
  if (known) return { ...describe(config, account, known.secret), sealed: sent }
  const secret = generateSecret()
  const [key] = await readSecretKeys(config)
  const { keyId, sealed } = sealSecret(key, totpOwner(account.id), secret)
  const text = Buffer.concat([keyId, sealed]).toString('base64url')
  return { ...describe(config, account, secret), sealed: text }
}

/** Opens a sealed secret of an account as a form has it, after the 8 bytes of its key's id. Null for anything else. */
async function openSealed(
  { config }: { config: KeySettings },
  accountId: string,
  text: string,
): Promise<(SealedSecret & { secret: string }) | null> {
  const bytes = Buffer.from(text.slice(0, 400), 'base64url')
  if (bytes.length < 8 + 29) return null
  const found = { keyId: bytes.subarray(0, 8), sealed: bytes.subarray(8) }
  const secret = openSecret(await readSecretKeys(config), totpOwner(accountId), found)
  return secret === null ? null : { ...found, secret }
}

function describe(config: EnrolmentConfig, { username }: { username: string }, secret: string): Enrolment {
  // A colon separates issuer and username in the label, so neither may contain one.
  const issuer = `${config.site.name ?? 'svc'} ${new URL(config.baseUrl).hostname}`.replaceAll(
    /[^\p{L}\p{N} _.-]/gu,
    '',
  )
  const url = generateURI({ issuer, label: username, secret, period: periodSeconds })
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
  const factor = await findTotpFactor(context.db, accountId)
  const pending = factor?.confirmedAt ? null : factor
  return takeFirstCode(context, by, accountId, pending, code, async (tx, checked, timeStep) => {
    // The account first, as in every change of its factors: another first factor may make recovery codes meanwhile.
    await lockAccount(tx, accountId)
    if (!(await confirmTotpFactor(tx, by, accountId, checked, timeStep))) return nothingToConfirm
    const hasCodes = (await countRecoveryCodes(tx, accountId)) > 0
    return { recoveryCodes: hasCodes ? [] : await renewRecoveryCodes(tx, by, accountId) }
  })
}

/**
 * Replaces the authenticator app of an account by another one, with the first code of the new app. The account is never
 * without a factor, so this works also while one is required. Recovery codes stay.
 */
export async function confirmReplacement(
  context: FactorContext,
  by: Principal,
  accountId: string,
  { sealed, code }: { sealed: string; code: string },
): Promise<EnrolmentOutcome> {
  const current = await findTotpFactor(context.db, accountId)
  const sent = await openSealed(context, accountId, sealed)
  const next = current?.confirmedAt && sent ? { ...current, ...sent } : null
  return takeFirstCode(context, by, accountId, next, code, async (tx, checked, timeStep) => {
    const isReplaced =
      current !== null && (await replaceTotpFactor(tx, by, accountId, current, checked, timeStep))
    return isReplaced ? { recoveryCodes: [] } : nothingToConfirm
  })
}

/** Checks the first code of an app, and stores the app in a transaction. A right code does not count as an attempt. */
async function takeFirstCode(
  context: FactorContext,
  by: Principal,
  accountId: string,
  factor: TotpFactor | null,
  code: string,
  store: (tx: pg.PoolClient, factor: TotpFactor, timeStep: number) => Promise<EnrolmentOutcome>,
): Promise<EnrolmentOutcome> {
  const { db, origin } = context
  const limits = await limitsOfFactor(db, accountId, 'totp', origin)
  const blockedSeconds = await countAttempt(db, limits)
  if (blockedSeconds > 0) return tooManyFactors(blockedSeconds)
  if (!factor) return nothingToConfirm
  const timeStep = await timeStepOf(context, accountId, factor, code)
  if (timeStep === 'no key') return missingKey(context.config)
  if (timeStep === null) {
    await noteFailedFactor(db, by, accountId, 'totp')
    return wrongCode
  }
  const outcome = await transaction(db, (tx) => store(tx, factor, timeStep), by)
  if ('recoveryCodes' in outcome) await takeBackAttempt(db, limits, limits)
  return outcome
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
