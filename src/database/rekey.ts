import type pg from 'pg'
import { advisoryLocks, transaction } from './database.ts'
import {
  deriveKey,
  type KeySettings,
  makeKeyText,
  openSecret,
  readKeyFile,
  readSecretKeys,
  type SealedSecret,
  type SecretKey,
  sealSecret,
  writeKeyFile,
} from './secret-key.ts'

/** A sealed secret in its row. */
export interface StoredSecret extends SealedSecret {
  rowId: string
  /** What it is sealed for. */
  owner: string
  /** What it is, for people: `the second factor of alice`. */
  name: string
}

/** The sealed secrets of a table. */
export interface SealedTable {
  /** What an operator can do about secrets whose key is lost: `remove these sources with svc source remove`. */
  remedy: string
  /** Lists and locks the secrets that are encrypted with another key than this one. */
  lockOthers: (tx: pg.PoolClient, keyId: Buffer) => Promise<StoredSecret[]>
  /** Replaces the secrets of rows. */
  replace: (tx: pg.PoolClient, secrets: readonly ReplacedSecret[]) => Promise<void>
}

export type ReplacedSecret = SealedSecret & Pick<StoredSecret, 'rowId'>

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
 * Encrypts every secret of the tables with a new key. With `SECRET_KEY`, that is the new key, and `SECRET_KEY_PREVIOUS` and
 * the key file decrypt. Without it, a new key is written to the key file, and the old key is removed from it when no secret
 * needs it. Until then the file has both, so servers keep working and an interrupted change can be run again. Throws
 * when a key is missing: then nothing has changed.
 */
export async function rekey(
  db: pg.Pool,
  settings: KeySettings,
  tables: readonly SealedTable[],
): Promise<Rekeying> {
  if (settings.secretKey !== null) {
    const secrets = await inTurn(db, async (tx) => sealAgain(tx, tables, await readSecretKeys(settings)))
    return { secrets, key: 'SECRET_KEY' }
  }
  await inTurn(db, (tx) => addKey(tx, settings, tables))
  let secrets = 0
  for (let sealed = -1; sealed !== 0; secrets += sealed)
    sealed = await inTurn(db, (tx) => useKey(tx, settings, tables))
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
async function addKey(
  tx: pg.PoolClient,
  settings: KeySettings,
  tables: readonly SealedTable[],
): Promise<void> {
  const [, ...older] = await readSecretKeys(settings)
  const lines = await readKeyFile(settings)
  if (lines.length > 1) return
  const next = makeKeyText()
  const keys = [deriveKey(next), ...lines.map(deriveKey), ...older] as const
  for (const table of tables) await openOthers(tx, table, keys)
  await writeKeyFile(settings, [next, ...lines])
}

/**
 * Encrypts all secrets with the first key of the key file, and returns how many had another key. When none had one, it
 * removes the other keys from the file. A server that read the file before `addKey` may still have stored one.
 */
async function useKey(
  tx: pg.PoolClient,
  settings: KeySettings,
  tables: readonly SealedTable[],
): Promise<number> {
  const sealed = await sealAgain(tx, tables, await readSecretKeys(settings))
  if (sealed === 0) await writeKeyFile(settings, (await readKeyFile(settings)).slice(0, 1))
  return sealed
}

/** Encrypts all secrets with the first key. Returns how many had another one. */
async function sealAgain(
  tx: pg.PoolClient,
  tables: readonly SealedTable[],
  keys: readonly [SecretKey, ...SecretKey[]],
): Promise<number> {
  let count = 0
  for (const table of tables) {
    const sealed = (await openOthers(tx, table, keys)).map(({ rowId, owner, secret }) => ({
      rowId,
      ...sealSecret(keys[0], owner, secret),
    }))
    for (let start = 0; start < sealed.length; start += batchSize)
      await table.replace(tx, sealed.slice(start, start + batchSize))
    count += sealed.length
  }
  return count
}

/** Locks and decrypts the secrets of a table that have another key than the first. Throws when none of the keys opens one. */
async function openOthers(
  tx: pg.PoolClient,
  table: SealedTable,
  keys: readonly [SecretKey, ...SecretKey[]],
): Promise<{ rowId: string; owner: string; secret: string }[]> {
  const opened: { rowId: string; owner: string; secret: string }[] = []
  const foreign: string[] = []
  for (const { rowId, owner, name, ...sealed } of await table.lockOthers(tx, keys[0].id)) {
    const secret = openSecret(keys, owner, sealed)
    if (secret === null) foreign.push(name)
    else opened.push({ rowId, owner, secret })
  }
  if (foreign.length === 0) return opened
  const names = foreign.slice(0, maxNamed).join(', ')
  const more = foreign.length > maxNamed ? ` and ${foreign.length - maxNamed} more` : ''
  throw new Error(
    `${names}${more}: encrypted with another key, so nothing was changed. Set that key as SECRET_KEY_PREVIOUS, or ${table.remedy}.`,
  )
}
