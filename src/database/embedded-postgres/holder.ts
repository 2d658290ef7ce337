import pg from 'pg'

/** What a process holds the cluster for. A command's hold is short; others do not rely on it. */
export type Purpose = 'server' | 'command'

/** The process that holds a cluster. */
export interface Holder {
  purpose: Purpose
  pid: number
}

/** Who has this session-level advisory lock holds the cluster. The key is "svc" in ASCII, and 1. */
const lockKey = [0x737663, 1]

/** Refusals that only say "not now": PostgreSQL starts, recovers, or stops. */
const passingErrors = ['57P01', '57P03', 'ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE']

/** Connects under a name that tells others who holds the cluster. Null while PostgreSQL starts or stops. */
export async function connectAsHolder(config: pg.ClientConfig, purpose: Purpose): Promise<pg.Client | null> {
  const client = new pg.Client({ ...config, application_name: `svc ${purpose} pid ${process.pid}` })
  // pg throws an 'error' nobody listens to; who keeps the client listens as well.
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

/** Takes the cluster for as long as the client stays connected. False when another has it. */
export async function tryHold(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>(
    'select pg_try_advisory_lock($1, $2) as held',
    lockKey,
  )
  return rows[0]?.held === true
}

/** Who holds the cluster, as PostgreSQL knows it. Null when nobody does. */
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
