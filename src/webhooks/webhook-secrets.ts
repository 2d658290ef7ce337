import { createHmac, randomBytes } from 'node:crypto'
import type { SealedTable, StoredSecret } from '../database/rekey.ts'
import {
  type KeySettings,
  openSecret,
  readSecretKeys,
  type SealedSecret,
  sealSecret,
} from '../database/secret-key.ts'

const prefix = 'whsec_'

/** Returns a new secret: 32 random bytes, in the format of Standard Webhooks. */
export function makeWebhookSecret(): string {
  return `${prefix}${randomBytes(32).toString('base64')}`
}

/** Encrypts the secrets of a webhook with the key of the server. The newest secret comes first. */
export async function sealWebhookSecrets(
  config: KeySettings,
  webhookId: string,
  secrets: readonly string[],
): Promise<SealedSecret> {
  const [key] = await readSecretKeys(config)
  return sealSecret(key, ownerOf(webhookId), JSON.stringify(secrets))
}

/** Decrypts the secrets of a webhook. Null when the server has none of the keys that could. */
export async function openWebhookSecrets(
  config: KeySettings,
  webhookId: string,
  sealed: SealedSecret,
): Promise<string[] | null> {
  const text = openSecret(await readSecretKeys(config), ownerOf(webhookId), sealed)
  return text === null ? null : (JSON.parse(text) as string[])
}

/** What a message is signed with. */
interface Signed {
  id: string
  /** Seconds since 1970. */
  timestamp: number
  body: string
}

/** Returns the header `webhook-signature` (Standard Webhooks 1.0.0): a signature for each secret. */
export function signMessage(secrets: readonly string[], { id, timestamp, body }: Signed): string {
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(prefix.length), 'base64')
      return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
    })
    .join(' ')
}

/** The secrets of webhooks. */
export const webhookSecrets: SealedTable = {
  async lockOthers(tx, keyId) {
    const { rows } = await tx.query<Omit<StoredSecret, 'owner'>>(
      `select id as "rowId", 'the webhook ' || id as name, key_id as "keyId", sealed_secrets as sealed
         from webhook where key_id <> $1 order by id for update`,
      [keyId],
    )
    return rows.map((row) => ({ ...row, owner: ownerOf(row.rowId) }))
  },
  async replace(tx, secrets) {
    await tx.query(
      `update webhook w set key_id = n.key_id, sealed_secrets = n.sealed
         from unnest($1::bigint[], $2::bytea[], $3::bytea[]) as n (id, key_id, sealed) where w.id = n.id`,
      [
        secrets.map(({ rowId }) => rowId),
        secrets.map(({ keyId }) => keyId),
        secrets.map(({ sealed }) => sealed),
      ],
    )
  },
}

function ownerOf(webhookId: string): string {
  return `secrets of webhook ${webhookId}`
}
