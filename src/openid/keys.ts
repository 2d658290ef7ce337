import { type CryptoKey, calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'
import type pg from 'pg'
import { type Queryable, sweepOf, transaction } from '../database/database.ts'
import { sealedRowsOf } from '../database/sealed-rows.ts'
import type { KeySettings, SealedSecret } from '../database/secret-key.ts'
import { type TokenAlgorithm, tokenAlgorithms } from '../domain/token-algorithm.ts'
import type { Job } from '../jobs/job.ts'

/** A key as lists show it. */
export interface ListedKey {
  /** The thumbprint of the public key (RFC 7638), in the header of each token that the key has signed. */
  kid: string
  alg: TokenAlgorithm
  state: 'current' | 'next' | 'retired'
  createdAt: Date
  activatedAt: Date | null
  retiredAt: Date | null
}

/** A key that signs now. */
export interface SigningKeyPair {
  kid: string
  privateKey: CryptoKey
}

/** After this time the next key signs. */
const rotationDays = 90
/** For how long a retired key is published: the life of an ID token, and the time for which clients keep one. */
const publishedSeconds = 86_400

/** The private keys, as JWKs. */
export const openidKeySecrets = sealedRowsOf<JWK>('openid_key', 'replace these keys with svc keys rotate')

/** SQL. */
const state = `case when retired_at is not null then 'retired' when activated_at is null then 'next' else 'current' end`
const isCurrent = 'activated_at is not null and retired_at is null'
const isNext = 'activated_at is null'

/** Lists all keys, those that sign first. */
export async function listKeys(db: Queryable): Promise<ListedKey[]> {
  const { rows } = await db.query<ListedKey>(
    `select kid, alg, ${state} as state, created_at as "createdAt", activated_at as "activatedAt", retired_at as "retiredAt"
       from openid_key order by retired_at desc nulls first, activated_at nulls last, alg desc, id desc`,
  )
  return rows
}

/** Describes a key for `--json`. */
export function describeKey({ kid, alg, state: now, createdAt, activatedAt, retiredAt }: ListedKey) {
  return {
    kid,
    alg,
    state: now,
    created_at: createdAt.toISOString(),
    activated_at: activatedAt?.toISOString() ?? null,
    retired_at: retiredAt?.toISOString() ?? null,
  }
}

/**
 * Returns the public keys that clients need: those that sign, those that will, and retired ones while a token may live that
 * they have signed (OPENID 242). With `all`, every retired key that is kept, to verify an expired ID token.
 */
export async function listPublicKeys(db: Queryable, { all = false } = {}): Promise<JWK[]> {
  const { rows } = await db.query<{ jwk: JWK }>({
    name: 'list-openid-keys',
    text: `select public_jwk as jwk from openid_key
            where retired_at is null or $1 or retired_at > now() - make_interval(secs => $2)
            order by retired_at desc nulls first, activated_at nulls last, alg desc, id desc`,
    values: [all, publishedSeconds],
  })
  return rows.map(({ jwk }) => jwk)
}

/** Returns the key that signs now with an algorithm. Creates the first ones. Throws when its private key cannot be opened. */
export async function findCurrentKey(
  db: pg.Pool,
  config: KeySettings,
  alg: TokenAlgorithm,
): Promise<SigningKeyPair> {
  const stored = (await findStored(db, alg, isCurrent)) ?? (await createFirst(db, config, alg))
  const jwk = await openidKeySecrets.open(config, stored.id, stored)
  if (jwk === null)
    throw new Error(
      `The key ${stored.kid} that signs ID tokens is encrypted with a key that this server does not have: restore SECRET_KEY, or replace it with svc keys rotate.`,
    )
  return { kid: stored.kid, privateKey: (await importJWK(jwk, alg)) as CryptoKey }
}

/** Creates the keys that are missing. Two processes at once create one key of each kind. */
export async function createMissingKeys(db: pg.Pool, config: KeySettings): Promise<void> {
  for (const alg of tokenAlgorithms) {
    if (!(await findStored(db, alg, isCurrent))) await createFirst(db, config, alg)
    if (!(await findStored(db, alg, isNext))) await insertKey(db, config, alg, { isActive: false })
  }
}

/**
 * Lets the next key of each algorithm sign, retires the current one, and makes a new next one. A key that has signed for
 * less than `minDays` stays. Returns the keys that sign from now on. Two processes at once rotate once.
 */
export async function rotateKeys(
  db: pg.Pool,
  config: KeySettings,
  { minDays = 0 } = {},
): Promise<{ alg: TokenAlgorithm; kid: string }[]> {
  await createMissingKeys(db, config)
  const rotated: { alg: TokenAlgorithm; kid: string }[] = []
  for (const alg of tokenAlgorithms) {
    const current = await findStored(
      db,
      alg,
      `${isCurrent} and activated_at <= now() - $2 * interval '1 day'`,
      [minDays],
    )
    if (!current) continue
    const next = await findUsableNext(db, config, alg)
    if (!next) continue
    const kid = await transaction(db, async (tx) => {
      // The update decides: only one of two processes retires the key.
      const { rowCount } = await tx.query(
        `update openid_key set retired_at = now(), key_id = null, sealed_secrets = null where id = $1 and retired_at is null`,
        [current.id],
      )
      if (rowCount !== 1) return null
      await tx.query('update openid_key set activated_at = now() where id = $1', [next.id])
      return next.kid
    })
    if (kid !== null) rotated.push({ alg, kid })
  }
  await createMissingKeys(db, config)
  return rotated
}

/** Rotates the keys that have signed for 90 days. The first use makes the first keys. */
export const rotateKeysJob: Job = {
  name: 'rotate-openid-keys',
  everySeconds: 3600,
  async run({ config, db, log }) {
    if ((await listKeys(db)).length === 0) return
    for (const { alg, kid } of await rotateKeys(db, config, { minDays: rotationDays }))
      log.info({ alg, kid }, 'a new key signs ID tokens')
  },
}

/** Deletes keys that were retired long ago. Until then, an ID token that they have signed can name who signs out. */
export const deleteRetiredKeys = sweepOf('openid_key', 'id', `retired_at < now() - interval '400 days'`)

interface StoredKey extends SealedSecret {
  id: string
  kid: string
}

async function findStored(
  db: Queryable,
  alg: TokenAlgorithm,
  condition: string,
  values: readonly unknown[] = [],
): Promise<StoredKey | null> {
  const { rows } = await db.query<StoredKey>(
    `select id, kid, key_id as "keyId", sealed_secrets as sealed from openid_key where alg = $1 and ${condition}`,
    [alg, ...values],
  )
  return rows[0] ?? null
}

async function createFirst(db: pg.Pool, config: KeySettings, alg: TokenAlgorithm): Promise<StoredKey> {
  await insertKey(db, config, alg, { isActive: true })
  // It may be that of another process.
  return (await findStored(db, alg, isCurrent)) as StoredKey
}

/**
 * Returns the next key. Replaces one that cannot be opened, because SECRET_KEY was lost. Returns null while another process
 * rotates: the next key signs then, and there is no other yet.
 */
async function findUsableNext(
  db: pg.Pool,
  config: KeySettings,
  alg: TokenAlgorithm,
): Promise<StoredKey | null> {
  const next = await findStored(db, alg, isNext)
  if (!next || (await openidKeySecrets.open(config, next.id, next)) !== null) return next
  await db.query(`delete from openid_key where id = $1 and ${isNext}`, [next.id])
  await insertKey(db, config, alg, { isActive: false })
  return findStored(db, alg, isNext)
}

/**
 * Creates a key, unless the algorithm has one of this state. A thread of libuv makes it: an RSA key takes up to some
 * seconds.
 */
async function insertKey(
  db: pg.Pool,
  config: KeySettings,
  alg: TokenAlgorithm,
  { isActive }: { isActive: boolean },
): Promise<void> {
  const pair = await generateKeyPair(alg, { extractable: true })
  const publicKey = await exportJWK(pair.publicKey)
  const kid = await calculateJwkThumbprint(publicKey)
  const { rows } = await db.query<{ id: string }>(
    `select nextval(pg_get_serial_sequence('openid_key', 'id')) as id`,
  )
  const { id } = rows[0] as { id: string }
  const { keyId, sealed } = await openidKeySecrets.seal(config, id, await exportJWK(pair.privateKey))
  await db.query(
    `insert into openid_key (id, kid, alg, public_jwk, key_id, sealed_secrets, activated_at)
     overriding system value values ($1, $2, $3, $4, $5, $6, case when $7 then now() end)
     on conflict do nothing`,
    [id, kid, alg, { ...publicKey, kid, alg, use: 'sig' }, keyId, sealed, isActive],
  )
}
