import type pg from 'pg'
import type { ProofMethod } from '../accounts/sessions.ts'
import { type Queryable, sweepOf } from '../database/database.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { TokenAlgorithm } from '../domain/token-algorithm.ts'

/** What an authorization request with the scope `openid` asks for. */
export interface OpenidRequest {
  /** Null when the request has none. */
  nonce: string | null
  /** Claims about the account that are wanted in the ID token, by the parameter `claims`. */
  idTokenClaims: readonly string[]
}

/**
 * Stores what the ID tokens of a code need (OPENID 243), in the transaction that issues the code. The proofs are those of the
 * session now.
 */
export async function noteSignIn(
  tx: pg.PoolClient,
  codeHash: SecretHash,
  sessionHash: SecretHash,
  { nonce, idTokenClaims }: OpenidRequest,
  lifetimes: { code: number; refreshToken: number },
): Promise<void> {
  await tx.query(
    `with noted as (
       insert into openid_session (session_hash, application_id, account_id, grant_id)
       select s.id_hash, g.application_id, s.account_id, g.id
         from session s, authorization_code o join authorization_grant g on g.id = o.grant_id
        where s.id_hash = $1 and o.code_hash = $2
       on conflict (session_hash, application_id) do update set account_id = excluded.account_id, grant_id = excluded.grant_id
       returning sid
     )
     insert into openid_sign_in (code_hash, session_hash, sid, nonce, authenticated_at, methods, id_token_claims, expires_at)
     select $2, $1, sid, $3, greatest(created_at, proved_at), methods, $4, now() + make_interval(secs => $5)
       from session, noted where id_hash = $1`,
    [sessionHash, codeHash, nonce, idTokenClaims, lifetimes.code + lifetimes.refreshToken],
  )
}

/** A sign-in, its application and its account, for an ID token. */
export interface NotedSignIn {
  clientId: string
  alg: TokenAlgorithm
  accountId: string
  username: string
  displayName: string
  email: string | null
  isEmailVerified: boolean
  sid: string
  nonce: string | null
  /** Seconds since 1970. */
  authenticatedAt: number
  methods: ProofMethod[]
  idTokenClaims: string[]
}

/** A sign-in is kept for the life of the last refresh token. It is written again only when that is a day longer. */
const renewalSeconds = 86_400

/**
 * Finds the sign-in from which an access token comes, and keeps it as long as a refresh token lives. Null when there is
 * none.
 */
export async function findSignIn(
  db: Queryable,
  accessHash: SecretHash,
  refreshSeconds: number,
): Promise<NotedSignIn | null> {
  const { rows } = await db.query<NotedSignIn>({
    name: 'find-openid-sign-in',
    text: `with found as (
             select s.code_hash, s.sid, s.nonce, s.authenticated_at, s.methods, s.id_token_claims, g.account_id, g.application_id
               from token_pair p
               join openid_sign_in s on s.code_hash = p.code_hash
               join authorization_grant g on g.id = p.grant_id
              where p.access_hash = $1
           ), kept as (
             update openid_sign_in set expires_at = now() + make_interval(secs => $2)
              where code_hash in (select code_hash from found)
                and expires_at < now() + make_interval(secs => $2::float8 - ${renewalSeconds})
           )
           select c.client_id as "clientId", c.id_token_alg as alg, a.id as "accountId", a.username,
                  a.display_name as "displayName", a.email, a.email_verified_at is not null as "isEmailVerified",
                  f.sid, f.nonce, extract(epoch from f.authenticated_at)::float8 as "authenticatedAt", f.methods,
                  f.id_token_claims as "idTokenClaims"
             from found f
             join account a on a.id = f.account_id
             join application c on c.id = f.application_id`,
    values: [accessHash, refreshSeconds],
  })
  return rows[0] ?? null
}

/** Deletes sign-ins whose last token has expired. */
export const deleteExpiredOpenidSignIns = sweepOf('openid_sign_in', 'code_hash')
