import type { SealedTable, StoredSecret } from '../database/rekey.ts'
import {
  type KeySettings,
  openSecret,
  readSecretKeys,
  type SealedSecret,
  sealSecret,
} from '../database/secret-key.ts'

/** The secrets of a source. */
export interface SourceSecrets {
  /** The secret with which the Git server signs its hooks. */
  hookSecret: string
  /** `user:password`, for HTTP Basic. */
  login: string | null
  /** A private key for SSH. */
  sshKey: string | null
}

/** Encrypts the secrets of a source with the key of the server. */
export async function sealSourceSecrets(
  config: KeySettings,
  sourceId: string,
  secrets: SourceSecrets,
): Promise<SealedSecret> {
  const [key] = await readSecretKeys(config)
  return sealSecret(key, ownerOf(sourceId), JSON.stringify(secrets))
}

/** Decrypts the secrets of a source. Null when the server has none of the keys that could. */
export async function openSourceSecrets(
  config: KeySettings,
  sourceId: string,
  sealed: SealedSecret,
): Promise<SourceSecrets | null> {
  const text = openSecret(await readSecretKeys(config), ownerOf(sourceId), sealed)
  return text === null ? null : (JSON.parse(text) as SourceSecrets)
}

/** The secrets of sources. */
export const sourceSecrets: SealedTable = {
  async lockOthers(tx, keyId) {
    const { rows } = await tx.query<Omit<StoredSecret, 'owner'>>(
      `select id as "rowId", 'the source ' || id as name, key_id as "keyId", sealed_secrets as sealed
         from source where key_id <> $1 order by id for update`,
      [keyId],
    )
    return rows.map((row) => ({ ...row, owner: ownerOf(row.rowId) }))
  },
  async replace(tx, secrets) {
    await tx.query(
      `update source s set key_id = n.key_id, sealed_secrets = n.sealed
         from unnest($1::bigint[], $2::bytea[], $3::bytea[]) as n (id, key_id, sealed) where s.id = n.id`,
      [
        secrets.map(({ rowId }) => rowId),
        secrets.map(({ keyId }) => keyId),
        secrets.map(({ sealed }) => sealed),
      ],
    )
  },
}

function ownerOf(sourceId: string): string {
  return `secrets of source ${sourceId}`
}
