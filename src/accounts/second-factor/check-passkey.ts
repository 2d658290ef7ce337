import type { AppContext } from '../../context.ts'
import { countAttempt, limitsFrom, takeBackAttempt } from '../../database/failure-limit.ts'
import { observing, outcomeOfCheck, signIns } from '../../domain/observations.ts'
import type { Principal } from '../../domain/principal.ts'
import type { CredentialRefusal } from '../credential-refusal.ts'
import type { SignInOrigin } from '../sign-in-origins.ts'
import { limitsOfFactor, noteFailedFactor, tooManyFactors } from './check-factor.ts'
import { finishUse, type UsedPasskey } from './passkey-ceremony.ts'
import type { ChallengeOwner } from './passkey-challenges.ts'

/** The browser that sends a passkey. */
export interface PasskeySender {
  origin: SignInOrigin
  /** Who sends it. Nobody is known before the check. */
  by: Principal
}

/**
 * Checks a passkey that a browser sent for a challenge of this owner. Returns it, or the refusal. Wrong passkeys
 * are limited. Those of a known account are written as identity events.
 */
export function checkPasskey(
  context: AppContext,
  sender: PasskeySender,
  sent: string,
  owner: ChallengeOwner,
): Promise<UsedPasskey | CredentialRefusal> {
  return observing(
    signIns,
    'passkey',
    () => countAndCheckPasskey(context, sender, sent, owner),
    (checked) => outcomeOfCheck('problem' in checked ? checked.status : null),
  )
}

async function countAndCheckPasskey(
  context: AppContext,
  sender: PasskeySender,
  sent: string,
  owner: ChallengeOwner,
): Promise<UsedPasskey | CredentialRefusal> {
  const { db } = context
  const { accountId: known } = owner
  const { origin } = sender
  const limits =
    known === null
      ? limitsFrom(origin.network, { subject: 'passkey', attempts: 100, windowSeconds: 900 })
      : await limitsOfFactor(db, known, 'passkey', origin)
  const blockedSeconds = await countAttempt(db, limits)
  if (blockedSeconds > 0) return tooManyFactors(blockedSeconds)
  const used = await finishUse(context, sent, owner)
  if (used === 'expired') {
    // It says nothing about the passkey. Counted, it would block the passkeys of the account.
    if (known !== null) await takeBackAttempt(db, limits)
    return expiredPasskey
  }
  if (used !== 'rejected') {
    await takeBackAttempt(db, limits, limits)
    return used
  }
  if (known !== null) await noteFailedFactor(db, { ...sender.by, accountId: known }, known, 'passkey')
  return wrongPasskey
}

const wrongPasskey: CredentialRefusal = {
  status: 403,
  headers: {},
  problem: 'This passkey was not accepted: this account does not have it. Try again, or use another one.',
}

/** The refusal of a page whose challenge is gone. */
const expiredPasskey: CredentialRefusal = {
  status: 403,
  headers: {},
  problem: 'This page was open for too long, or was sent before. Your passkey was not checked. Try again.',
}
