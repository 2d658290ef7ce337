import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { chooseRunAs } from '../../src/database/embedded-postgres/run-as.ts'
import { freePort } from './program.ts'

/** A running PgBouncer. */
export interface PgBouncer {
  /** The DATABASE_URL of a database behind it. */
  url: string
  stop: () => Promise<void>
}

/** Starts a PgBouncer in transaction mode in front of a database, with few connections, so that clients share them. */
export async function startPgBouncer({
  host,
  port,
  user,
  password,
  database,
}: pg.PoolConfig): Promise<PgBouncer> {
  const folder = await mkdtemp('/tmp/svc-test-pgbouncer-')
  // PgBouncer refuses to run as root, as PostgreSQL does.
  const ids = await chooseRunAs(null)
  await chmod(folder, 0o755)
  const ownPort = await freePort()
  await writeFile(join(folder, 'users.txt'), `"${user}" "${String(password)}"\n`)
  await writeFile(
    join(folder, 'pgbouncer.ini'),
    `[databases]
     * = host=${host} port=${port}
     [pgbouncer]
     listen_addr = 127.0.0.1
     listen_port = ${ownPort}
     unix_socket_dir =
     auth_type = trust
     auth_file = ${folder}/users.txt
     pool_mode = transaction
     default_pool_size = 5
     max_client_conn = 500
    `.replace(/^ +/gm, ''),
  )
  const child = spawn('pgbouncer', ['--quiet', join(folder, 'pgbouncer.ini')], {
    ...ids,
    cwd: folder,
    env: { PATH: `${process.env['PATH']}:/usr/sbin` },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let printed = ''
  child.stderr.on('data', (text: Buffer) => {
    printed += text.toString()
  })
  const exit = once(child, 'exit')
  while (!(await accepts(ownPort))) {
    if (child.exitCode !== null) throw new Error(`pgbouncer does not listen:\n${printed}`)
    await sleep(20)
  }
  return {
    url: `postgres://${user}@127.0.0.1:${ownPort}/${database}`,
    async stop() {
      child.kill('SIGTERM')
      await exit
      await rm(folder, { recursive: true })
    },
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}
