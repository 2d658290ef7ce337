import { isIP } from 'node:net'
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import * as z from 'zod'
import { type Config, originsOf } from '../../config.ts'
import type { Queryable } from '../../database/database.ts'
import { hashSecret } from '../../domain/secrets.ts'
import { type ChallengeOwner, makeChallenge, spendChallenge } from './passkey-challenges.ts'
import { findPasskey, listPasskeys, notePasskeyUse, type StoredPasskey } from './passkeys.ts'

/** The context of a ceremony. Passkeys belong to the host of `baseUrl`. */
export interface CeremonyContext {
  config: Pick<Config, 'baseUrl' | 'authUrl' | 'site'>
  db: Queryable
}

/**
 * Loads the WebAuthn library at the first ceremony. It has 70 modules, and takes 0.2 s: a third of the start of a
 * command, which needs none of it.
 */
const loadLibrary = () => import('@simplewebauthn/server')

/** The maximum length of the id of a passkey (WebAuthn §4), and of its public key. The largest RSA keys have 2 KiB. */
const maxIdBytes = 1023
const maxKeyBytes = 4096

const base64url = z.string().regex(/^[\w-]{1,8000}$/)
const RegistrationResponse = z.object({
  id: base64url,
  rawId: base64url,
  type: z.literal('public-key'),
  response: z.object({
    clientDataJSON: base64url,
    attestationObject: z.string().regex(/^[\w-]{1,40000}$/),
    transports: z
      .array(z.string().regex(/^[a-z-]{1,20}$/))
      .max(10)
      .default([]),
  }),
  /** What the browser adds: `rk` says whether the passkey is discoverable (WebAuthn §10.1.3). Not every browser knows. */
  clientExtensionResults: z
    .object({ credProps: z.object({ rk: z.boolean().optional() }).optional() })
    .default({}),
})
const AuthenticationResponse = z.object({
  id: base64url,
  rawId: base64url,
  type: z.literal('public-key'),
  response: z.object({
    clientDataJSON: base64url,
    authenticatorData: base64url,
    signature: base64url,
    userHandle: base64url.nullish(),
  }),
})
const ClientData = z.object({ challenge: base64url })

/** Returns whether browsers allow passkeys on this host. It must have a name, and https unless it is this machine. */
export function allowsPasskeys({ baseUrl }: Pick<Config, 'baseUrl'>): boolean {
  const { hostname, protocol } = new URL(baseUrl)
  if (isIP(hostname.replace(/^\[|\]$/g, '')) !== 0) return false
  return protocol === 'https:' || hostname === 'localhost' || hostname.endsWith('.localhost')
}

/** Returns the options for a new passkey of the account, as JSON for the browser. */
export async function startRegistration(
  { config, db }: CeremonyContext,
  account: { id: string; username: string; displayName: string },
  owner: ChallengeOwner,
): Promise<string> {
  const { generateRegistrationOptions } = await loadLibrary()
  const known = await listPasskeys(db, account.id)
  const options = await generateRegistrationOptions({
    rpName: config.site.name ?? 'svc',
    challenge: await makeChallenge(db, owner),
    rpID: hostOf(config),
    userName: account.username,
    userDisplayName: account.displayName || account.username,
    userID: userHandleOf(account.id),
    attestationType: 'none',
    excludeCredentials: known.map(({ credentialId: id, transports }) => ({ id, transports })),
    authenticatorSelection: { residentKey: 'preferred', userVerification: 'preferred' },
  })
  return JSON.stringify(options)
}

/** A new passkey of an account, without a name yet. */
export type NewPasskey = Pick<
  StoredPasskey,
  'credentialId' | 'publicKey' | 'signCount' | 'transports' | 'canSignIn'
>

/** Checks the new passkey of a browser. Null when it is not valid, or its challenge was used before. */
export async function finishRegistration(
  { config, db }: CeremonyContext,
  sent: string,
  owner: ChallengeOwner,
): Promise<NewPasskey | null> {
  const response = readJson(RegistrationResponse, sent)
  const challenge = response && challengeOf(response)
  if (!challenge || !(await spendChallenge(db, challenge, owner))) return null
  const { verifyRegistrationResponse } = await loadLibrary()
  const { verified, registrationInfo } = await orUnverified(() =>
    verifyRegistrationResponse({
      response: response as RegistrationResponseJSON,
      expectedChallenge: challenge,
      expectedOrigin: originsOf(config),
      expectedRPID: hostOf(config),
      requireUserVerification: false,
    }),
  )
  if (!verified || !registrationInfo) return null
  const { id, publicKey, counter } = registrationInfo.credential
  if (Buffer.byteLength(id, 'base64url') > maxIdBytes || publicKey.length > maxKeyBytes) return null
  return {
    credentialId: id,
    publicKey: Buffer.from(publicKey),
    signCount: counter,
    transports: response.response.transports,
    canSignIn: !registrationInfo.userVerified
      ? false
      : (response.clientExtensionResults.credProps?.rk ?? null),
  }
}

/**
 * Returns the options for the use of a passkey, as JSON for the browser. Without an account,
 * any passkey of this host signs in, and its device must check the person (PIN, finger or face): it replaces the password.
 */
export async function startUse({ config, db }: CeremonyContext, owner: ChallengeOwner): Promise<string> {
  const { generateAuthenticationOptions } = await loadLibrary()
  const known = owner.accountId === null ? [] : await listPasskeys(db, owner.accountId)
  const options = await generateAuthenticationOptions({
    challenge: await makeChallenge(db, owner),
    rpID: hostOf(config),
    userVerification: owner.accountId === null ? 'required' : 'preferred',
    allowCredentials: known.map(({ credentialId: id, transports }) => ({ id, transports })),
  })
  return JSON.stringify(options)
}

/** A passkey that was used. `isPersonVerified`: its device has checked the person by PIN, finger or face. */
export interface UsedPasskey {
  accountId: string
  isPersonVerified: boolean
}

/** The result of the use of a passkey. `expired`: its challenge expired, was used before, or belongs to another action. */
export type PasskeyUse = UsedPasskey | 'rejected' | 'expired'

/** Checks and stores the use of a passkey. Rejects it when it is not valid, or a copy of the passkey. */
export async function finishUse(
  { config, db }: CeremonyContext,
  sent: string,
  owner: ChallengeOwner,
): Promise<PasskeyUse> {
  const response = readJson(AuthenticationResponse, sent)
  const challenge = response && challengeOf(response)
  if (!response || !challenge) return 'rejected'
  if (!(await spendChallenge(db, challenge, owner))) return 'expired'
  const passkey = await findPasskey(db, response.id)
  if (!passkey) return 'rejected'
  const { accountId } = passkey
  if (owner.accountId !== null && owner.accountId !== accountId) return 'rejected'
  const { userHandle } = response.response
  const handle = Buffer.from(userHandleOf(accountId)).toString('base64url')
  if (userHandle ? userHandle !== handle : owner.accountId === null) return 'rejected'
  const { verifyAuthenticationResponse } = await loadLibrary()
  const { verified, authenticationInfo } = await orUnverified(() =>
    verifyAuthenticationResponse({
      response: { ...response, clientExtensionResults: {} } as AuthenticationResponseJSON,
      expectedChallenge: challenge,
      expectedOrigin: originsOf(config),
      expectedRPID: hostOf(config),
      requireUserVerification: owner.accountId === null,
      credential: {
        id: passkey.credentialId,
        publicKey: new Uint8Array(passkey.publicKey),
        counter: passkey.signCount,
      },
    }),
  )
  if (!verified || !authenticationInfo) return 'rejected'
  const isNewer = await notePasskeyUse(
    db,
    passkey.id,
    authenticationInfo.newCounter,
    owner.accountId === null,
  )
  return isNewer ? { accountId, isPersonVerified: authenticationInfo.userVerified } : 'rejected'
}

/** Returns the challenge that a response signed. Null when it cannot be read. */
function challengeOf({ response }: { response: { clientDataJSON: string } }): string | null {
  const data = readJson(ClientData, Buffer.from(response.clientDataJSON, 'base64url').toString('utf8'))
  return data?.challenge ?? null
}

function readJson<Schema extends z.ZodType>(schema: Schema, text: string): z.output<Schema> | null {
  try {
    return schema.safeParse(JSON.parse(text)).data ?? null
  } catch {
    return null
  }
}

/** The library throws for each rule that a response breaks. The person gets one sentence for all of them. */
async function orUnverified<T extends { verified: boolean }>(
  verify: () => Promise<T>,
): Promise<T | { verified: false; registrationInfo?: never; authenticationInfo?: never }> {
  try {
    return await verify()
  } catch {
    return { verified: false }
  }
}

function hostOf({ baseUrl }: Pick<Config, 'baseUrl'>): string {
  return new URL(baseUrl).hostname
}

/** Returns the id of the account for authenticators. It reveals nothing about the account (WebAuthn §14.6.1). */
function userHandleOf(accountId: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(hashSecret(`passkey user ${accountId}`))
}
