import type { Queryable } from '../database/database.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { PresentedClient } from './client-auth.ts'

/** A code with all that it must be bound to, and the pair to store for it. */
export interface CodeExchange {
  client: PresentedClient
  codeHash: SecretHash
  /** Null when the request has none: then it is not compared (SPEC 4.2). */
  redirectUri: string | null
  /** S256 of the code_verifier; null when the request has none. */
  codeChallenge: string | null
  accessHash: SecretHash
  refreshHash: SecretHash
  accessSeconds: number
  refreshSeconds: number
}

export type CodeAnswer =
  | { outcome: 'issued'; scopes: string[] }
  | { outcome: 'invalid_client' | 'invalid_grant' | 'replayed' }

/** Verifies the client, spends the code and stores the pair, or does nothing: the migration's `exchange_code` tells which. */
export async function exchangeCode(db: Queryable, exchange: CodeExchange): Promise<CodeAnswer> {
  const { rows } = await db.query<CodeAnswer>({
    name: 'exchange-code',
    text: 'select outcome, scopes from exchange_code($1, $2, $3, $4, $5, $6, $7, $8, $9)',
    values: [
      exchange.client.clientId,
      exchange.client.secretHash,
      exchange.codeHash,
      exchange.redirectUri,
      exchange.codeChallenge,
      exchange.accessHash,
      exchange.refreshHash,
      exchange.accessSeconds,
      exchange.refreshSeconds,
    ],
  })
  return rows[0] as CodeAnswer
}
