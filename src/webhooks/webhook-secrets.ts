import { createHmac, randomBytes } from 'node:crypto'
import { sealedRowsOf } from '../database/sealed-rows.ts'

const prefix = 'whsec_'

/** Returns a new secret: 32 random bytes, in the format of Standard Webhooks. */
export function makeWebhookSecret(): string {
  return `${prefix}${randomBytes(32).toString('base64')}`
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

/** The secrets of webhooks. Those of one are a list, the newest first. */
export const webhookSecrets = sealedRowsOf<readonly string[]>(
  'webhook',
  'remove these webhooks with svc webhook remove',
)
