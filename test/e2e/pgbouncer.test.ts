import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import { useDatabase } from '../support/database.ts'
import { aStoredJob, listJobKinds } from '../support/job-rows.ts'
import { countAdvisoryLocks } from '../support/locks.ts'
import { type PgBouncer, startPgBouncer } from '../support/pgbouncer.ts'
import { type Environment, type Server, startServer, stopServer } from '../support/program.ts'
import { aRemoteUser, type IssuedTokens } from '../support/remote-user.ts'
import { has } from '../support/requires.ts'
import { countRows } from '../support/rows.ts'
import { runCommand } from '../support/run-command.ts'
import { useUpstream } from '../support/upstream.ts'

describe.skipIf(!has('pgbouncer'))(
  'behind PgBouncer in transaction mode, with DATABASE_PREPARE=false',
  () => {
    // The database is empty: the servers migrate it through PgBouncer.
    const database = useDatabase('template1')
    const servers: Server[] = []
    const upstream = useUpstream()
    let folder: string
    let pooler: PgBouncer
    let environment: Environment

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'svc-test-pgbouncer-data-'))
      pooler = await startPgBouncer(database.connection)
      environment = {
        DATABASE_URL: pooler.url,
        DATABASE_PREPARE: 'false',
        DATA_DIR: join(folder, 'data'),
        TRUST_PROXY: '127.0.0.1',
        UPSTREAM_HTTP: 'true',
        UPSTREAM_PRIVATE_HOSTS: '127.0.0.1',
      }
      servers.push(...(await Promise.all([startServer(environment), startServer(environment)])))
    })
    afterAll(async () => {
      await Promise.all(servers.map(stopServer))
      await pooler.stop()
      await rm(folder, { recursive: true })
    })
    const anyUrl = (i = 0) => servers[i % servers.length]?.url ?? ''
    const statuses = (responses: Response[]) => [...new Set(responses.map(({ status }) => status))]

    it('two servers start together on an empty database, and leave no lock behind', async () => {
      // A job that runs now may have one for a moment.
      await expect.poll(() => countAdvisoryLocks(database.db)).toBe(0)
      expect(JSON.parse((await runCommand(['migrate', '--json'], environment)).stdout)).toMatchObject({
        applied: [],
      })
    })

    it('pushes, pulls, refreshes and revocations do not fail, however many run at once', async () => {
      const user = await aRemoteUser(database.db)
      expect(statuses([await user.push(anyUrl(), '1.0.0')])).toEqual([201])
      const many = Array.from({ length: 60 }, (_, i) => i)
      const pulls = () => Promise.all(many.map((i) => user.pull(anyUrl(i))))
      expect([...statuses(await pulls()), ...statuses(await pulls())]).toEqual([200, 200])

      const pairs = await Promise.all(many.map((i) => user.tokens(anyUrl(i))))
      const mixed = many.map(async (i) => {
        const refreshed = await user.refresh(anyUrl(i), pairs[i]?.refresh_token ?? '')
        const { access_token } = (await refreshed.clone().json()) as IssuedTokens
        // Many requests of one network would wait for their turns, a slow machine longer than the server lets them.
        const from = `192.0.2.${i}`
        const used = await user.check(anyUrl(i), access_token, from)
        const revoked = await user.revoke(anyUrl(i), access_token)
        const refused = await user.check(anyUrl(i + 1), access_token, from)
        const pushed = i % 6 === 0 ? (await user.push(anyUrl(i), `2.0.${i}`)).status : 201
        return [refreshed, used, revoked, refused].map(({ status }) => status).concat(pushed)
      })
      expect(await Promise.all(mixed)).toEqual(many.map(() => [200, 200, 200, 401, 201]))
    })

    it('packages of an upstream arrive, also when many are requested at once', async () => {
      const names = Array.from({ length: 40 }, (_, i) => `psr/lib${i}`)
      for (const name of names) upstream.offer(name, ['1.0.0', '1.1.0'])
      const user = await aRemoteUser(database.db)
      const added = await runCommand(['upstream', 'add', user.repository, upstream.url], environment)
      expect(added).toMatchObject({ code: 0 })
      const pulls = () => Promise.all(names.map((name, i) => user.pull(anyUrl(i), `p2/${name}.json`)))
      expect([...statuses(await pulls()), ...statuses(await pulls())]).toEqual([200, 200])
    })

    it('no pool changes how the statements of another one are planned', async () => {
      const pool = openDatabase({ connectionString: pooler.url, max: 8, plansOnce: true }, () => {})
      const modes = await Promise.all(Array.from({ length: 8 }, () => pool.query('show plan_cache_mode')))
      await pool.end()
      expect(modes.map(({ rows }) => rows[0])).toEqual(modes.map(() => ({ plan_cache_mode: 'auto' })))
    })

    it('jobs run', async () => {
      await aStoredJob(database.db, 'delete-expired-rows', { key: '' })
      const hasRun = async () => {
        const kind = (await listJobKinds(database.db)).find(({ name }) => name === 'delete-expired-rows')
        const left = await countRows(database.db, 'job', { name: 'delete-expired-rows' })
        return kind?.succeededAt instanceof Date && left === 0
      }
      await expect.poll(hasRun).toBe(true)
    })

    it('commands work, a backup too', async () => {
      const file = join(folder, 'backup.tar')
      expect(await runCommand(['backup', file], environment)).toMatchObject({ code: 0 })
      expect(await runCommand(['verify-archives'], environment)).toMatchObject({ code: 0 })
    })
  },
)
