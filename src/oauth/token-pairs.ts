import type { Queryable } from '../database/database.ts'
import { byteaArray, forEachCall } from '../database/shared-statements.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import type { SecretHash, TokenKind } from '../domain/secrets.ts'

/** The credentials that a client sent. The statement that does the work of the request also verifies them. */
export interface PresentedClient {
  clientId: string
  secretHash: SecretHash
  /** The client IP of the request. */
  ip: string
}

/** The lifetimes of new tokens, and the grace period of a superseded pair. */
export interface TokenLifetimes {
  accessSeconds: number
  refreshSeconds: number
  graceSeconds: number
}

/** A code with the values that it must be bound to, and the hashes of the pair to store. */
export interface CodeExchange {
  client: PresentedClient
  codeHash: SecretHash
  /** Null when the request has none. Then the exchange does not compare it (SPEC 4.2). */
  redirectUri: string | null
  /** S256 of the code_verifier; null when the request has none. */
  codeChallenge: string | null
  /** Resources separated by spaces. Null requests those of the code. Empty when one is unknown, so the request is refused. */
  resources: string | null
  accessHash: SecretHash
  refreshHash: SecretHash
  /** The sender of the request, for the identity event. */
  by: Principal
}

/** The outcomes are those of the SQL function `redeem_codes`. Scopes are separated by spaces. */
export type CodeOutcome =
  | { outcome: 'issued'; scope: string; authorizationId: string }
  | { outcome: 'invalid_client' | 'invalid_grant' | 'invalid_target' | 'replayed' }

/** Exchanges codes for token pairs in one transaction. Returns the outcomes in the order of the calls. */
export async function exchangeCodes(
  db: Queryable,
  lifetimes: TokenLifetimes,
  calls: readonly CodeExchange[],
): Promise<CodeOutcome[]> {
  const { rows } = await db.query<CodeOutcome & { callNumber: number }>({
    name: 'exchange-codes',
    text: `select call_number as "callNumber", outcome, scope, authorization_id as "authorizationId"
             from redeem_codes(
                    client_ids => $1, secret_hashes => $2, code_hashes => $3, redirect_uris => $4,
                    code_challenges => $5, access_hashes => $6, refresh_hashes => $7, actors => $8,
                    access_seconds => $9, refresh_seconds => $10, asked_resources => $11)`,
    values: [
      calls.map(({ client }) => client.clientId),
      byteaArray(calls.map(({ client }) => client.secretHash)),
      byteaArray(calls.map(({ codeHash }) => codeHash)),
      calls.map(({ redirectUri }) => redirectUri),
      calls.map(({ codeChallenge }) => codeChallenge),
      byteaArray(calls.map(({ accessHash }) => accessHash)),
      byteaArray(calls.map(({ refreshHash }) => refreshHash)),
      calls.map(({ by }) => textOf(by)),
      lifetimes.accessSeconds,
      lifetimes.refreshSeconds,
      calls.map(({ resources }) => resources),
    ],
  })
  return inOrder(rows)
}

/** A refresh token and the pair that replaces it. */
export interface PairRefresh {
  client: PresentedClient
  refreshHash: SecretHash
  /** Scopes separated by spaces. Null requests everything that was granted. */
  scope: string | null
  /** Resources separated by spaces. Null requests those of the last access token. Empty when one is unknown. */
  resources: string | null
  accessHash: SecretHash
  nextRefreshHash: SecretHash
  /** The new pair, encrypted so that only the old refresh token can open it. */
  sealedSuccessor: Buffer
}

/** The outcomes are those of the SQL function `refresh_pairs`. Scopes are separated by spaces. */
export type RefreshOutcome =
  | { outcome: 'issued'; scope: string; expiresIn: number; authorizationId: string }
  | { outcome: 'repeated'; scope: string; expiresIn: number; authorizationId: string; sealedPair: Buffer }
  | { outcome: 'invalid_client' | 'invalid_grant' | 'invalid_scope' | 'invalid_target' | 'reused' }

/** Replaces token pairs with their successors in one transaction. Returns the outcomes in the order of the calls. */
export async function refreshPairs(
  db: Queryable,
  lifetimes: TokenLifetimes,
  calls: readonly PairRefresh[],
): Promise<RefreshOutcome[]> {
  const { rows } = await db.query<RefreshOutcome & { callNumber: number }>({
    name: 'refresh-pairs',
    text: `select call_number as "callNumber", outcome, scope, expires_in as "expiresIn",
                  sealed_pair as "sealedPair", authorization_id as "authorizationId"
             from refresh_pairs(
                    client_ids => $1, secret_hashes => $2, refresh_hashes => $3, asked_scopes => $4,
                    access_hashes => $5, next_refresh_hashes => $6, sealed_successors => $7,
                    access_seconds => $8, refresh_seconds => $9, grace_seconds => $10, asked_resources => $11)`,
    values: [
      calls.map(({ client }) => client.clientId),
      byteaArray(calls.map(({ client }) => client.secretHash)),
      byteaArray(calls.map(({ refreshHash }) => refreshHash)),
      calls.map(({ scope }) => scope),
      byteaArray(calls.map(({ accessHash }) => accessHash)),
      byteaArray(calls.map(({ nextRefreshHash }) => nextRefreshHash)),
      byteaArray(calls.map(({ sealedSuccessor }) => sealedSuccessor)),
      lifetimes.accessSeconds,
      lifetimes.refreshSeconds,
      lifetimes.graceSeconds,
      calls.map(({ resources }) => resources),
    ],
  })
  return inOrder(rows)
}

/** A client, and a token to revoke or introspect. */
export interface PresentedToken {
  client: PresentedClient
  tokenHash: SecretHash
}

/**
 * Revokes tokens in one transaction: a refresh token with its whole authorization, an access token alone. A token that
 * is invalid or belongs to another client changes nothing. Returns the results in the order of the calls: false when
 * the authentication of the client failed. The event of an ended authorization names who sent the call.
 */
export async function revokeTokens(
  db: Queryable,
  calls: readonly (PresentedToken & { by: Principal })[],
): Promise<boolean[]> {
  const { rows } = await db.query<{ callNumber: number; isAuthenticated: boolean }>({
    name: 'revoke-tokens',
    text: `select call_number as "callNumber", is_authenticated as "isAuthenticated"
             from end_tokens(client_ids => $1, secret_hashes => $2, token_hashes => $3, actors => $4)`,
    values: [...columnsOf(calls), calls.map(({ by }) => textOf(by))],
  })
  return inOrder(rows).map(({ isAuthenticated }) => isAuthenticated)
}

/** A valid token as other servers may see it (RFC 7662 §2.2). */
export interface SeenToken {
  kind: TokenKind | 'refresh'
  scopes: string[]
  /** Null for a personal access token and for a deploy token. */
  clientId: string | null
  /** Null for a deploy token, like the username. */
  accountId: string | null
  username: string | null
  /** The group that a deploy token belongs to. Null for other tokens. */
  group: { id: string; name: string } | null
  issuedAt: number
  /** Seconds since 1970; null when it never expires. */
  expiresAt: number | null
  /** Where it works (RFC 8707). Null: everywhere. */
  resources: string[] | null
  resourceScope: ResourceScope
  /** Paths of the chosen repositories. They apply when the resource scope is `specified`. */
  repositories: string[]
}

/**
 * Authenticates the clients and finds valid tokens. Returns results in the order of the calls. An application sees its
 * own tokens. A resource server also sees all access, personal and deploy tokens. `token` is null when there is none to
 * see. The result is null when the authentication of the client failed.
 */
export async function introspectTokens(
  db: Queryable,
  calls: readonly PresentedToken[],
): Promise<({ token: SeenToken | null } | null)[]> {
  const { rows } = await db.query<{ isKnown: true | null; token: SeenToken | null }>({
    name: 'introspect-tokens',
    text: forEachCall(
      { client_id: 'text', secret_hash: 'bytea', token_hash: 'bytea' },
      `select true as "isKnown", token
         from introspect_token(the_client_id => call.client_id, the_secret_hash => call.secret_hash,
                               the_token_hash => call.token_hash)`,
    ),
    values: columnsOf(calls),
  })
  return rows.map(({ isKnown, token }) => isKnown && { token })
}

function columnsOf(calls: readonly PresentedToken[]): [string[], Buffer, Buffer] {
  return [
    calls.map(({ client }) => client.clientId),
    byteaArray(calls.map(({ client }) => client.secretHash)),
    byteaArray(calls.map(({ tokenHash }) => tokenHash)),
  ]
}

/** The sender in the columns of an identity event, as parameters of the SQL functions. */
function textOf({ via, ip, userAgent, requestId }: Principal): string {
  return JSON.stringify({ via, ip, userAgent, requestId })
}

function inOrder<Row extends { callNumber: number }>(rows: readonly Row[]): Row[] {
  return rows.toSorted((a, b) => a.callNumber - b.callNumber)
}
