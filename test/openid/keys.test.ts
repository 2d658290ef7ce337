import { importJWK, type JWK } from 'jose'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { openDatabase, transaction } from '../../src/database/database.ts'
import { readSecretKeys } from '../../src/database/secret-key.ts'
import {
  createMissingKeys,
  findCurrentKey,
  listKeys,
  listPublicKeys,
  openidKeySecrets,
  rotateKeys,
} from '../../src/openid/keys.ts'
import { useApp } from '../support/app.ts'
import { activateNextKeys, ageKeys } from '../support/openid-rows.ts'
import { databaseUrl } from '../support/program.ts'
import { countRows, textOf, truncateTable } from '../support/rows.ts'
import { runCommand } from '../support/run-command.ts'

const t = useApp()

const svc = (...words: string[]) =>
  runCommand(words, { DATABASE_URL: databaseUrl(t.connection), DATA_DIR: t.config.dataDir })
const states = async () => (await listKeys(t.db)).map(({ alg, state }) => `${alg} ${state}`)
const published = async () => {
  const response = await t.app.inject('/oauth2/jwks')
  return { response, keys: response.json<{ keys: JWK[] }>().keys }
}

describe('GET /oauth2/jwks (OPENID 242)', () => {
  it('makes the first keys, one of each kind also when two processes race', async () => {
    const other = openDatabase({ ...t.connection }, () => {})
    await Promise.all([
      createMissingKeys(t.db, t.config),
      createMissingKeys(other, t.config),
      t.app.inject('/oauth2/jwks'),
      findCurrentKey(other, t.config, 'RS256'),
    ])
    await other.end()
    expect(await states()).toEqual(['RS256 current', 'ES256 current', 'RS256 next', 'ES256 next'])
  })

  it('publishes public keys for signatures, which caches may keep for an hour', async () => {
    const { response, keys } = await published()
    expect(response.headers['cache-control']).toBe('public, max-age=3600')
    expect(response.headers['content-type']).toBe('application/json;charset=UTF-8')
    expect(keys).toHaveLength(4)
    for (const key of keys) {
      expect(key).toMatchObject({ use: 'sig', kid: expect.stringMatching(/^[\w-]{43}$/) })
      expect(await importJWK(key)).toMatchObject({ type: 'public' })
    }
    const [rsa] = keys.filter(({ alg }) => alg === 'RS256')
    expect(Buffer.from(rsa?.n ?? '', 'base64url')).toHaveLength(256)
  })

  it('stores private keys encrypted, and a retired key loses its own', async () => {
    const stored = await textOf(t.db, 'openid_key')
    expect(stored).not.toMatch(/"d"/)
    const { kid, privateKey } = await findCurrentKey(t.db, t.config, 'RS256')
    expect(privateKey.type).toBe('private')
    await rotateKeys(t.db, t.config)
    expect(await countRows(t.db, 'openid_key', { kid, sealedSecrets: null, keyId: null })).toBe(1)
  })

  it('keeps a retired key for a day, and longer only to read an expired token', async () => {
    await truncateTable(t.db, 'openid_key')
    await createMissingKeys(t.db, t.config)
    const before = await published()
    await rotateKeys(t.db, t.config)
    const after = await published()
    // What was next signs now: everybody knows it already.
    expect(after.keys.map(({ kid }) => kid)).toEqual(
      expect.arrayContaining(before.keys.map(({ kid }) => kid)),
    )
    expect(after.keys).toHaveLength(6)
    await ageKeys(t.db, '25 hours')
    expect((await published()).keys).toHaveLength(4)
    expect(await listPublicKeys(t.db, { all: true })).toHaveLength(6)
  })
})

describe('rotateKeys', () => {
  it('lets the next key sign, and makes a new next one', async () => {
    const next = (await listKeys(t.db)).filter(({ state }) => state === 'next').map(({ kid }) => kid)
    const rotated = await rotateKeys(t.db, t.config)
    expect(rotated.map(({ kid }) => kid).toSorted()).toEqual(next.toSorted())
    expect((await findCurrentKey(t.db, t.config, 'ES256')).kid).toBe(
      rotated.find(({ alg }) => alg === 'ES256')?.kid,
    )
    expect((await states()).filter((state) => !state.endsWith('retired'))).toHaveLength(4)
  })

  it('leaves keys that have signed for less than 90 days, and rotates once when two processes race', async () => {
    expect(await rotateKeys(t.db, t.config, { minDays: 90 })).toEqual([])
    await ageKeys(t.db, '91 days')
    const other = new pg.Pool(t.connection)
    const rotations = await Promise.all([t.db, other].map((db) => rotateKeys(db, t.config, { minDays: 90 })))
    await other.end()
    expect(rotations.flat()).toHaveLength(2)
  })

  it('leaves the rotation to a process that has activated the next key, and not made another yet', async () => {
    await createMissingKeys(t.db, t.config)
    const signing = async () => (await listKeys(t.db)).filter(({ state }) => state === 'current')
    const former = await signing()
    const slow = new pg.Pool(t.connection)
    const query = slow.query.bind(slow) as (...given: unknown[]) => Promise<unknown>
    let isFirst = true
    Object.assign(slow, {
      query: async (text: string, values: unknown[]) => {
        const found = await query(text, values)
        if (!isFirst || !text.includes("interval '1 day'")) return found
        isFirst = false
        await activateNextKeys(t.db)
        return found
      },
    })
    await ageKeys(t.db, '91 days')
    const other = (await listKeys(t.db)).filter(({ state }) => state === 'next')
    const rotated = await rotateKeys(slow, t.config, { minDays: 90 })
    expect(isFirst).toBe(false)
    expect(rotated).toEqual([])
    expect((await signing()).map(({ kid }) => kid)).toEqual(other.map(({ kid }) => kid))
    expect((await signing()).map(({ kid }) => kid)).not.toEqual(former.map(({ kid }) => kid))
    await slow.end()
  })

  it('replaces keys that were encrypted with a key that is lost', async () => {
    const lost = { ...t.config, dataDir: `${t.config.dataDir}/another` }
    await expect(findCurrentKey(t.db, lost, 'RS256')).rejects.toThrow(/svc keys rotate/)
    await rotateKeys(t.db, lost)
    expect((await findCurrentKey(t.db, lost, 'RS256')).privateKey.type).toBe('private')
    await rotateKeys(t.db, t.config)
  })
})

describe('svc keys', () => {
  it('lists the keys, and rotates them', async () => {
    await truncateTable(t.db, 'openid_key')
    expect((await svc('keys', 'list')).stdout).toBe(
      'There are no keys yet: the first sign-in with svc makes them.\n',
    )
    await createMissingKeys(t.db, t.config)
    const [current] = await listKeys(t.db)
    expect((await svc('keys', 'list')).stdout).toContain(`${current?.kid}  RS256  current  since 20`)
    const { code, stdout } = await svc('keys', 'rotate', '--json')
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      { rotated: [{ alg: 'RS256', kid: expect.any(String) }, expect.objectContaining({ alg: 'ES256' })] },
    ])
    const listed = JSON.parse((await svc('keys', 'list', '--json', '--limit', '5')).stdout) as {
      items: { state: string }[]
      next: string
    }
    expect(listed.items.map(({ state }) => state)).toEqual(['current', 'current', 'next', 'next', 'retired'])
    expect(listed.next).toMatch(/^[\w-]{43}$/)
  })

  it('are encrypted again by svc rekey', async () => {
    const { kid } = await findCurrentKey(t.db, t.config, 'RS256')
    const { code, stdout } = await svc('rekey', '--json')
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { secrets: 4 }])
    const [{ id: keyId }] = await readSecretKeys(t.config)
    const others = await transaction(t.db, (tx) => openidKeySecrets.lockOthers(tx, keyId))
    expect(others).toEqual([])
    expect((await findCurrentKey(t.db, t.config, 'RS256')).kid).toBe(kid)
  })
})
