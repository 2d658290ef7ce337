import { generateKeyPairSync, randomBytes } from 'node:crypto'
import type { CDPSession } from 'playwright-core'
import { startRegistration } from '../../src/accounts/second-factor/passkey-ceremony.ts'
import { insertPasskey } from '../../src/accounts/second-factor/passkeys.ts'
import { renewRecoveryCodes } from '../../src/accounts/second-factor/recovery-codes.ts'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import type { AccountActor } from './actors.ts'
import type { TestApp } from './app.ts'

/** What a device with passkeys can do. */
export interface DeviceAbilities {
  /** It keeps the account with the passkey. */
  hasResidentKey?: boolean
  /** It can check the person by PIN, finger or face. */
  hasUserVerification?: boolean
  /** It checks the person with success. */
  isUserVerified?: boolean
}

/** Connects a device with passkeys to the page of a browser. It can do all, and is touched at once. Returns its id. */
export async function connectDevice(
  cdp: CDPSession,
  { hasResidentKey = true, hasUserVerification = true, isUserVerified = true }: DeviceAbilities = {},
): Promise<string> {
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey,
      hasUserVerification,
      isUserVerified,
      automaticPresenceSimulation: true,
    },
  })
  return authenticatorId
}

/**
 * Stores a passkey of the account, named Laptop, in the device and on the server, with recovery codes, as the pages do:
 * they take twenty times as long.
 */
export async function storePasskey(
  { config, db }: Pick<TestApp, 'config' | 'db'>,
  { cdp, authenticatorId }: { cdp: CDPSession; authenticatorId: string },
  { id: accountId, username }: AccountActor,
  canSignIn: boolean,
): Promise<void> {
  const owner = { browser: '', accountId, purpose: 'register' } as const
  const account = { id: accountId, username, displayName: '' }
  const { rp, user } = JSON.parse(await startRegistration({ config, db }, account, owner))
  const credentialId = randomBytes(32)
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  await cdp.send('WebAuthn.addCredential', {
    authenticatorId,
    credential: {
      credentialId: credentialId.toString('base64'),
      isResidentCredential: true,
      rpId: rp.id,
      userHandle: Buffer.from(user.id, 'base64url').toString('base64'),
      privateKey: privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64'),
      signCount: 0,
    },
  })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  // The key in COSE (RFC 9052): an EC key for ES256, on P-256, with two coordinates.
  const coseKey = Buffer.concat([
    Buffer.from([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32]),
    Buffer.from(x, 'base64url'),
    Buffer.from([0x22, 0x58, 32]),
    Buffer.from(y, 'base64url'),
  ])
  await transaction(
    db,
    async (tx) => {
      await insertPasskey(tx, operator, {
        accountId,
        credentialId: credentialId.toString('base64url'),
        publicKey: coseKey,
        signCount: 0,
        transports: ['internal'],
        name: 'Laptop',
        canSignIn,
      })
      await renewRecoveryCodes(tx, operator, accountId)
    },
    operator,
  )
}
