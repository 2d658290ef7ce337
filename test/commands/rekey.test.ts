import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { totpSecrets } from '../../src/accounts/second-factor/totp-factors.ts'
import { lockCollection } from '../../src/archives/tables/archives.ts'
import { transaction } from '../../src/database/database.ts'
import { rekey } from '../../src/database/rekey.ts'
import { keyFileOf, makeKeyText, readSecretKeys } from '../../src/database/secret-key.ts'
import { webhookSecrets } from '../../src/webhooks/webhook-secrets.ts'
import { useApp } from '../support/app.ts'
import {
  aPersonWithTotp,
  codeOf,
  type FactorActor,
  forgetCodes,
  halfSignIn,
} from '../support/factor-actors.ts'
import { databaseUrl } from '../support/program.ts'
import { textOf } from '../support/rows.ts'
import { runCommand } from '../support/run-command.ts'

const t = useApp()
const file = () => keyFileOf(t.config)
const lines = async () => (await readFile(file(), 'utf8')).trim().split('\n')
const people: FactorActor[] = []

beforeAll(async () => {
  people.push(await aPersonWithTotp(t), await aPersonWithTotp(t))
})

/** Runs `svc rekey --json` with these settings. */
async function svcRekey(environment: Record<string, string> = {}) {
  const own = { DATABASE_URL: databaseUrl(t.connection), DATA_DIR: t.config.dataDir }
  const { code, stdout, stderr } = await runCommand(['rekey', '--json'], { ...own, ...environment })
  return { code, ...(JSON.parse(stdout || stderr) as { secrets?: number; key?: string; error?: string }) }
}

/** Returns whether the running server still accepts the codes of all accounts. */
async function allSignIn() {
  for (const person of people) {
    await forgetCodes(t, person)
    const { send } = await halfSignIn(t.app, person)
    expect((await send({ code: codeOf(person.secret) })).statusCode).toBe(303)
  }
}

describe('the key file', () => {
  it('is created at the first use, for its owner only, and only once when processes race', async () => {
    expect((await stat(file())).mode & 0o777).toBe(0o600)
    const dataDir = `${t.config.dataDir}/another`
    const settings = { ...t.config, dataDir }
    const keys = await Promise.all(Array.from({ length: 8 }, () => readSecretKeys(settings)))
    expect(new Set(keys.map(([key]) => key.bytes.toString('hex'))).size).toBe(1)
  })

  it('is refused when it is damaged', async () => {
    const settings = { ...t.config, dataDir: `${t.config.dataDir}/another` }
    await writeFile(keyFileOf(settings), '\n')
    await expect(readSecretKeys(settings)).rejects.toThrow(/is damaged/)
    await rm(keyFileOf(settings))
  })
})

describe('svc rekey', () => {
  it('does not wait for publications and garbage collections', async () => {
    const rekeyed = await transaction(t.db, async (tx) => {
      await lockCollection(tx)
      return rekey(t.db, t.config, [totpSecrets])
    })
    expect(rekeyed).toEqual({ secrets: 2, key: 'file' })
  })

  it('makes a new key while the server runs, and drops the old one', async () => {
    const [old] = await lines()
    expect(await svcRekey()).toEqual({ code: 0, secrets: 2, key: file() })
    expect(await lines()).toHaveLength(1)
    expect(await lines()).not.toContain(old)
    expect((await stat(file())).mode & 0o777).toBe(0o600)
    await allSignIn()
  })

  it('ends an interrupted change instead of beginning another one', async () => {
    const next = makeKeyText()
    // The state after a kill right after the new key was written: nothing is encrypted with it yet.
    await writeFile(file(), `${[next, ...(await lines())].join('\n')}\n`)
    await allSignIn()
    expect(await rekey(t.db, t.config, [totpSecrets])).toEqual({ secrets: 2, key: 'file' })
    expect(await lines()).toEqual([next])
    await allSignIn()
  })

  it('runs changes one after the other', async () => {
    await Promise.all(Array.from({ length: 4 }, () => rekey(t.db, t.config, [totpSecrets])))
    expect(await lines()).toHaveLength(1)
    await allSignIn()
  })

  it('changes nothing when it lacks a key', async () => {
    const before = await lines()
    const factors = await textOf(t.db, 'totp_factor')
    const foreign = { ...t.config, dataDir: `${t.config.dataDir}/another` }
    await expect(rekey(t.db, foreign, [totpSecrets])).rejects.toThrow(people[0]?.username ?? '')
    expect(await lines()).toEqual(before)
    expect(await textOf(t.db, 'totp_factor')).toBe(factors)
    const failed = await svcRekey({ DATA_DIR: foreign.dataDir })
    expect(failed.code).toBe(1)
    expect(failed.error).toContain('nothing was changed')
  })

  it('says what to do about each kind of secret whose key is lost', async () => {
    const foreign = { ...t.config, dataDir: `${t.config.dataDir}/another` }
    await expect(rekey(t.db, foreign, [totpSecrets])).rejects.toThrow(
      /SECRET_KEY_PREVIOUS, or remove these second factors with svc account reset-factors\.$/,
    )
    const own = { DATABASE_URL: databaseUrl(t.connection), DATA_DIR: t.config.dataDir }
    const added = await runCommand(['webhook', 'add', 'https://1.1.1.1/hook', '--json'], own)
    const { id } = JSON.parse(added.stdout) as { id: number }
    await expect(rekey(t.db, foreign, [webhookSecrets])).rejects.toThrow(
      new RegExp(`^the webhook ${id}: .* or remove these webhooks with svc webhook remove\\.$`),
    )
    await runCommand(['webhook', 'remove', String(id), '--force', '--json'], own)
  })

  it('moves from the file to SECRET_KEY, from there to another, and back', async () => {
    const [one, two] = [makeKeyText(), makeKeyText()]
    expect(await svcRekey({ SECRET_KEY: one })).toEqual({ code: 0, secrets: 2, key: 'SECRET_KEY' })
    const changed = await svcRekey({ SECRET_KEY: two, SECRET_KEY_PREVIOUS: one })
    expect(changed).toEqual({ code: 0, secrets: 2, key: 'SECRET_KEY' })
    expect(await svcRekey({ SECRET_KEY: two })).toEqual({ code: 0, secrets: 0, key: 'SECRET_KEY' })
    expect((await svcRekey()).code).toBe(1)
    expect(await svcRekey({ SECRET_KEY_PREVIOUS: two })).toMatchObject({ code: 0, secrets: 2 })
    await allSignIn()
  })
})

describe('svc backup', () => {
  it('says which key it does not hold', async () => {
    const file = `${t.config.dataDir}/backup.tar`
    const own = { DATABASE_URL: databaseUrl(t.connection), DATA_DIR: t.config.dataDir }
    const { stdout } = await runCommand(['backup', file, '--json'], own)
    expect(JSON.parse(stdout)).toMatchObject({ key_to_keep: keyFileOf(t.config) })
    expect((await readFile(file)).includes((await lines())[0] ?? '-')).toBe(false)
  })
})
