import type { SealedTable, StoredSecret } from './rekey.ts'
import { type KeySettings, openSecret, readSecretKeys, type SealedSecret, sealSecret } from './secret-key.ts'

/** The secrets of the rows of a table, encrypted with the key of the server. */
export interface SealedRows<Secrets> extends SealedTable {
  /** Encrypts the secrets of a row. */
  seal: (config: KeySettings, id: string, secrets: Secrets) => Promise<SealedSecret>
  /** Decrypts the secrets of a row. Null when the server has none of the keys that could. */
  open: (config: KeySettings, id: string, sealed: SealedSecret) => Promise<Secrets | null>
}

/**
 * Returns the secrets of a table with the columns `id`, `key_id` and `sealed_secrets`. They are stored as JSON. What is sealed
 * for one row cannot be opened for another one. `remedy` is that of `SealedTable`.
 */
export function sealedRowsOf<Secrets>(
  table: 'source' | 'webhook' | 'openid_key',
  remedy: string,
): SealedRows<Secrets> {
  const ownerOf = (id: string) => `secrets of ${table} ${id}`
  const words = table.replaceAll('_', ' ')
  return {
    remedy,
    async seal(config, id, secrets) {
      const [key] = await readSecretKeys(config)
      return sealSecret(key, ownerOf(id), JSON.stringify(secrets))
    },
    async open(config, id, sealed) {
      const text = openSecret(await readSecretKeys(config), ownerOf(id), sealed)
      return text === null ? null : (JSON.parse(text) as Secrets)
    },
    async lockOthers(tx, keyId) {
      const { rows } = await tx.query<Omit<StoredSecret, 'owner'>>(
        `select id as "rowId", 'the ${words} ' || id as name, key_id as "keyId", sealed_secrets as sealed
           from ${table} where key_id <> $1 order by id for update`,
        [keyId],
      )
      return rows.map((row) => ({ ...row, owner: ownerOf(row.rowId) }))
    },
    async replace(tx, secrets) {
      await tx.query(
        `update ${table} t set key_id = n.key_id, sealed_secrets = n.sealed
           from unnest($1::bigint[], $2::bytea[], $3::bytea[]) as n (id, key_id, sealed) where t.id = n.id`,
        [
          secrets.map(({ rowId }) => rowId),
          secrets.map(({ keyId }) => keyId),
          secrets.map(({ sealed }) => sealed),
        ],
      )
    },
  }
}
