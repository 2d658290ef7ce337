import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../../src/database/database.ts'
import { buildApp } from '../../../src/web/server/app.ts'
import { openLog } from '../../../src/web/server/log.ts'
import { anAccount, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { whileLocked } from '../../support/locks.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { dropRows } from '../../support/rows.ts'
import { canMount, mountSmallDisk, remount } from '../../support/small-disk.ts'

describe('GET /healthz and /readyz', () => {
  const t = useApp()

  it('responds while the process runs', async () => {
    const response = await t.app.inject('/healthz')
    expect(response.statusCode).toBe(200)
    expect(response.json()).toEqual({ status: 'ok' })
  })

  it('is ready when the database responds and no migration is missing', async () => {
    const response = await t.app.inject('/readyz')
    expect(response.statusCode).toBe(200)
    expect(response.json()).toEqual({ status: 'ready' })
  })

  it('is not ready after the archives were unmounted under the process', async () => {
    const owner = join(t.config.dataDir, 'archives/database-id')
    await mkdir(dirname(owner), { recursive: true })
    await writeFile(owner, 'b0a6c2a4-6f43-4d5c-8d59-0d3c1f1e3c55')
    expect((await t.app.inject('/readyz')).statusCode).toBe(200)
    await rm(owner)
    const response = await t.app.inject('/readyz')
    expect([response.statusCode, response.json().reason]).toEqual([
      503,
      'the archive store has lost its file archives/database-id: is it still mounted?',
    ])
    await writeFile(owner, 'b0a6c2a4-6f43-4d5c-8d59-0d3c1f1e3c55')
    expect((await t.app.inject('/readyz')).statusCode).toBe(200)
  })

  it('is not ready while a migration is missing, and names it', async () => {
    await dropRows(t.db, 'applied_migration', { name: '0004_tokens.sql' })
    const response = await t.app.inject('/readyz')
    expect(response.statusCode).toBe(503)
    expect(response.json().reason).toContain('0004_tokens.sql')
  })

  it('is not ready while the database is silent', async () => {
    const response = await whileLocked(t.db, 'applied_migration', async () => t.app.inject('/readyz'))
    expect([response.statusCode, response.json()]).toEqual([
      503,
      { status: 'not ready', reason: 'the database does not respond' },
    ])
  })

  it('is not ready while the volume is gone, and names each reason', async () => {
    await rm(t.config.dataDir, { recursive: true })
    const response = await t.app.inject('/readyz')
    expect([response.statusCode, response.json().reason]).toEqual([
      503,
      expect.stringMatching(
        /^migrations to apply: 0004_tokens\.sql; the archive store has lost its file .*; DATA_DIR cannot be written \(ENOENT\): uploads get 503$/,
      ),
    ])
    await mkdir(t.config.dataDir)
  })
})

describe('GET /status', () => {
  const t = useApp()

  it('says in words what works, and hides the last backup from visitors', async () => {
    const { body, statusCode } = await t.app.inject('/status')
    expect([statusCode, body.includes('Everything works.')]).toEqual([200, true])
    expect(body).not.toContain('Last backup')
    const cookie = await signIn(t.app, await anAccount(t.db))
    const page = await t.app.inject({ url: '/status', headers: { cookie } })
    expect(page.body).toContain('Last backup')
  })

  it('says so, instead of failing, when the database does not respond', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const { body, statusCode } = await whileLocked(t.db, 'applied_migration', async () =>
      t.app.inject({ url: '/status', headers: { cookie } }),
    )
    expect(statusCode).toBe(503)
    expect(body).toContain('Some requests fail at the moment.')
  })
})

describe('GET /readyz with a read-only database', () => {
  const t = useApp()

  it('is not ready, because nothing can be changed', async () => {
    const standby = { ...t.connection, options: '-c default_transaction_read_only=on' }
    const db = openDatabase(standby, () => {})
    const app = await buildApp({ config: t.config, db }, openLog('silent', new PassThrough()))
    const response = await app.inject('/readyz')
    await app.close()
    await db.end()
    expect([response.statusCode, response.json()]).toEqual([
      503,
      { status: 'not ready', reason: 'the database is read-only' },
    ])
    expect((await t.app.inject('/readyz')).json()).toEqual({ status: 'ready' })
  })
})

describe('GET /readyz with a migration that was written after the start', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-migrations-'))
  const t = useApp({ MIGRATIONS_DIR: folder })

  it('stays ready, because the process does not need it', async () => {
    await writeFile(join(folder, '0900_later.sql'), 'select 1')
    expect((await t.app.inject('/readyz')).statusCode).toBe(200)
    await rm(folder, { recursive: true })
  })
})

describe.skipIf(!canMount)('GET /readyz with a small disk (needs the right to mount)', () => {
  const t = useApp({ DISK_RESERVE_BYTES: '1000000' })
  beforeAll(() => void mountSmallDisk(t.config.dataDir, 20))
  afterAll(() => void spawnSync('umount', [t.config.dataDir]))

  it('is degraded while the disk is full, because pulls work', async () => {
    const { ask } = await aPublisher(t)
    expect((await t.app.inject('/readyz')).json()).toEqual({ status: 'ready' })
    await writeFile(join(t.config.dataDir, 'large'), Buffer.alloc(8 * 1024 ** 2))
    const response = await t.app.inject('/readyz')
    expect([response.statusCode, response.json()]).toEqual([
      200,
      {
        status: 'degraded',
        reason: expect.stringMatching(
          /^the disk of DATA_DIR is full: \d+ bytes are free, and uploads get 507$/,
        ),
      },
    ])
    expect((await ask('packages.json')).statusCode).toBe(200)
    await rm(join(t.config.dataDir, 'large'))
    expect((await t.app.inject('/readyz')).json()).toEqual({ status: 'ready' })
  })

  it('is degraded while the disk is read-only, and names the reason', async () => {
    remount(t.config.dataDir, 'ro')
    const response = await t.app.inject('/readyz')
    remount(t.config.dataDir, 'rw')
    expect([response.statusCode, response.json()]).toEqual([
      200,
      { status: 'degraded', reason: 'DATA_DIR cannot be written (EROFS): uploads get 503' },
    ])
  })
})
