import type pg from 'pg'
import { advisoryLocks, transaction } from '../../database/database.ts'
import {
  deriveKey,
  type KeySettings,
  makeKeyText,
  openSecret,
  readKeyFile,
  readSecretKeys,
  type SecretKey,
  sealSecret,
  writeKeyFile,
} from './secret-key.ts'
import { lockSecretsOfOtherKeys, replaceSecrets, type StoredSecret } from './totp-factors.ts'

/** The outcome of a change of the key. */
export interface Rekeying {
  /** How many secrets were encrypted again. */
  secrets: number
  /** The place of the current key. */
  key: 'SECRET_KEY' | 'file'
}

const batchSize = 1000
const maxNamed = 10

/**
 * Encrypts every secret with a new key. With `SECRET_KEY`, that is the new key, and `SECRET_KEY_PREVIOUS` and the key
 * file decrypt. Without it, a new key is written to the key file, and the old key is removed from it when no secret
 * needs it. Until then the file has both, so servers keep working and an interrupted change can be run again. Throws
 * when a key is missing: then nothing has changed.
 */
export async function rekey(db: pg.Pool, settings: KeySettings): Promise<Rekeying> {
  if (settings.secretKey !== null) {
    const secrets = await inTurn(db, async (tx) => sealAgain(tx, await readSecretKeys(settings)))
    return { secrets, key: 'SECRET_KEY' }
  }
  await inTurn(db, (tx) => addKey(tx, settings))
  let secrets = 0
  for (let sealed = -1; sealed !== 0; secrets += sealed)
    sealed = await inTurn(db, (tx) => useKey(tx, settings))
  return { secrets, key: 'file' }
}

/** Runs one change at a time: two at once would each drop the key of the other. */
async function inTurn<T>(db: pg.Pool, work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  return transaction(db, async (tx) => {
    await tx.query('select pg_advisory_xact_lock($1)', [advisoryLocks.secretKey])
    return work(tx)
  })
}

/** Adds a new key before the others in the key file. If an earlier change was interrupted, its key is already there. */
async function addKey(tx: pg.PoolClient, settings: KeySettings): Promise<void> {
  const [, ...older] = await readSecretKeys(settings)
  const lines = await readKeyFile(settings)
  if (lines.length > 1) return
  const next = makeKeyText()
  const keys = [deriveKey(next), ...lines.map(deriveKey), ...older] as const
  openAll(await lockSecretsOfOtherKeys(tx, keys[0].id), keys)
  await writeKeyFile(settings, [next, ...lines])
}

/**
 * Encrypts all secrets with the first key of the key file, and returns how many had another key. When none had one, it
 * removes the other keys from the file. A server that read the file before `addKey` may still have stored one.
 */
async function useKey(tx: pg.PoolClient, settings: KeySettings): Promise<number> {
  const sealed = await sealAgain(tx, await readSecretKeys(settings))
  if (sealed === 0) await writeKeyFile(settings, (await readKeyFile(settings)).slice(0, 1))
  return sealed
}

/** Encrypts all secrets with the first key. Returns how many had another one. */
async function sealAgain(tx: pg.PoolClient, keys: readonly [SecretKey, ...SecretKey[]]): Promise<number> {
  const stored = await lockSecretsOfOtherKeys(tx, keys[0].id)
  const sealed = openAll(stored, keys).map(({ accountId, secret }) => ({
    accountId,
    ...sealSecret(keys[0], accountId, secret),
  }))
  for (let start = 0; start < sealed.length; start += batchSize) {
    await replaceSecrets(tx, sealed.slice(start, start + batchSize))
  }
  return sealed.length
}

function openAll(
  stored: readonly StoredSecret[],
  keys: readonly SecretKey[],
): { accountId: string; secret: string }[] {
  const opened: { accountId: string; secret: string }[] = []
  const foreign: string[] = []
  for (const one of stored) {
    const secret = openSecret(keys, one.accountId, one)
    if (secret === null) foreign.push(one.username)
    else opened.push({ accountId: one.accountId, secret })
  }
  if (foreign.length === 0) return opened
  const names = foreign.slice(0, maxNamed).join(', ')
  const more = foreign.length > maxNamed ? ` and ${foreign.length - maxNamed} more` : ''
  throw new Error(
    `The second factors of ${names}${more} are encrypted with another key, so nothing was changed. Set that key as SECRET_KEY_PREVIOUS, or remove these factors with svc account reset-factors.`,
  )
}
