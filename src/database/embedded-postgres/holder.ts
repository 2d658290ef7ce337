import pg from 'pg'

/** Why a process holds the cluster. A command holds it only for a short time. */
export type Purpose = 'server' | 'command'

/** The process that holds a cluster. */
export interface Holder {
  purpose: Purpose
  pid: number
}

/** The process with this session-level advisory lock holds the cluster. The key is "svc" in ASCII, and 1. */
const lockKey = [0x737663, 1]

/** Errors while PostgreSQL starts, recovers or stops. */
const passingErrors = ['57P01', '57P03', 'ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE']

/** Connects with a name that shows other processes who holds the cluster. Null while PostgreSQL starts or stops. */
export async function connectAsHolder(config: pg.ClientConfig, purpose: Purpose): Promise<pg.Client | null> {
  const client = new pg.Client({ ...config, application_name: `svc ${purpose} pid ${process.pid}` })
  // pg throws an 'error' without a listener. The caller that keeps the client listens too.
  client.on('error', () => {})
  try {
    await client.connect()
    return client
  } catch (error) {
    await client.end().catch(() => {})
    const { code, message } = error as Error & { code?: string }
    if (passingErrors.includes(code ?? '') || message.startsWith('Connection terminated')) return null
    throw error
  }
}

/** Takes the cluster until the client disconnects. False when another process has it. */
export async function tryHold(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>(
    'select pg_try_advisory_lock($1, $2) as held',
    lockKey,
  )
  return rows[0]?.held === true
}

/** Returns the holder of the cluster. Null when there is none. */
export async function findHolder(client: pg.Client): Promise<Holder | null> {
  const { rows } = await client.query<{ name: string }>(
    `select activity.application_name as name
       from pg_locks as lock
       join pg_stat_activity as activity on activity.pid = lock.pid
      where lock.locktype = 'advisory' and lock.granted
        and lock.database = (select oid from pg_database where datname = current_database())
        and lock.classid = $1 and lock.objid = $2 and lock.objsubid = 2`,
    lockKey,
  )
  const [, purpose, pid] = /^svc (server|command) pid (\d+)$/.exec(rows[0]?.name ?? '') ?? []
  return purpose === undefined ? null : { purpose: purpose as Purpose, pid: Number(pid) }
}
