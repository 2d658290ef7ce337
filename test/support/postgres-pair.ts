import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { chown, mkdtemp, readFile, rm } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { chooseRunAs } from '../../src/database/embedded-postgres/run-as.ts'
import { freePort } from './program.ts'

const run = promisify(execFile)
const installed = '/usr/lib/postgresql'

/** Returns the folder of Debian's PostgreSQL programs. Null where they are not installed. With CI=true they must be. */
export function findPostgresPrograms(): string | null {
  const versions = existsSync(installed) ? readdirSync(installed).sort((a, b) => Number(b) - Number(a)) : []
  const folder = versions.map((version) => join(installed, version, 'bin')).find((bin) => existsSync(bin))
  if (folder === undefined && process.env['CI'] === 'true') throw new Error(`${installed} is missing`)
  return folder ?? null
}

/** A primary with a synchronous standby. One TCP port is connected to one of them, or to none. */
export interface PostgresPair {
  /** The DATABASE_URL of an empty database, through this port. */
  url: string
  /** Kills all processes of the primary with SIGKILL. The port is then connected to none. */
  killPrimary: () => Promise<void>
  /** Connects the port to the standby. */
  moveAddress: () => void
  promoteStandby: () => Promise<void>
  stop: () => Promise<void>
}

/** Starts both on loopback, in a temporary folder, as an unprivileged user. */
export async function startPostgresPair(programs: string): Promise<PostgresPair> {
  const folder = await mkdtemp('/tmp/svc-test-pair-')
  const ids = await chooseRunAs(null)
  if (ids) await chown(folder, ids.uid, ids.gid)
  const options = { ...ids, cwd: folder, env: { LC_ALL: 'C', TZ: 'UTC' } }
  const [primaryPort, standbyPort] = [await freePort(), await freePort()]
  const [primaryData, standbyData] = [join(folder, 'primary'), join(folder, 'standby')]
  const program = (name: string, ...words: string[]) => run(join(programs, name), words, options)

  async function start(data: string, port: number): Promise<ChildProcess> {
    const settings = [
      `port=${port}`,
      'listen_addresses=127.0.0.1',
      `unix_socket_directories=${folder}`,
      // The test kills only processes, never the machine, so the disk need not be synced.
      'fsync=off',
      'wal_keep_size=128MB',
    ].flatMap((setting) => ['-c', setting])
    const child = spawn(join(programs, 'postgres'), ['-D', data, ...settings], {
      ...options,
      stdio: 'ignore',
    })
    while (!(await isListening(port))) {
      if (child.exitCode !== null) throw new Error(`PostgreSQL in ${data} does not start`)
      await sleep(50)
    }
    return child
  }

  await program(
    'initdb',
    '-D',
    primaryData,
    '-U',
    'svc',
    '--auth=trust',
    '-E',
    'UTF8',
    '--locale=C',
    '--no-sync',
  )
  const primary = await start(primaryData, primaryPort)
  await ask(primaryPort, 'create database svc')
  const source = ['-h', '127.0.0.1', '-p', String(primaryPort), '-U', 'svc']
  await program('pg_basebackup', ...source, '-D', standbyData, '-R', '--checkpoint=fast', '--no-sync')
  const standby = await start(standbyData, standbyPort)
  await ask(primaryPort, `alter system set synchronous_standby_names = '*'`)
  await ask(primaryPort, 'select pg_reload_conf()')
  const synchronous = `select from pg_stat_replication where sync_state = 'sync'`
  while ((await ask(primaryPort, synchronous)).rowCount === 0) await sleep(50)

  let target: number | null = primaryPort
  const open = new Set<Socket>()
  const address = createServer((socket) => {
    if (target === null) return socket.destroy()
    const upstream = connect(target, '127.0.0.1')
    for (const [end, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      open.add(end)
      end.on('error', () => {})
      end.on('close', () => {
        open.delete(end)
        other.destroy()
      })
      end.pipe(other)
    }
    return undefined
  })
  address.listen(0, '127.0.0.1')
  await once(address, 'listening')

  return {
    url: `postgres://svc@127.0.0.1:${(address.address() as AddressInfo).port}/svc`,
    async killPrimary() {
      const children = await readFile(`/proc/${primary.pid}/task/${primary.pid}/children`, 'utf8')
      const exit = once(primary, 'exit')
      target = null
      for (const pid of [primary.pid, ...children.trim().split(' ').map(Number)]) {
        if (pid) killIfAlive(pid)
      }
      await exit
      for (const socket of open) socket.destroy()
    },
    moveAddress() {
      target = standbyPort
    },
    async promoteStandby() {
      await program('pg_ctl', 'promote', '-D', standbyData, '--wait')
    },
    async stop() {
      address.close()
      for (const socket of open) socket.destroy()
      for (const child of [primary, standby]) {
        if (child.exitCode !== null || child.signalCode !== null) continue
        const exit = once(child, 'exit')
        child.kill('SIGQUIT')
        await exit
      }
      await rm(folder, { recursive: true, maxRetries: 5 })
    },
  }
}

function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

async function ask(port: number, statement: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'svc', database: 'postgres' })
  await client.connect()
  try {
    return await client.query(statement)
  } finally {
    await client.end()
  }
}

function isListening(port: number): Promise<boolean> {
  return ask(port, 'select 1').then(
    () => true,
    () => false,
  )
}
