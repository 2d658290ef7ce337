import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The numeric ids of a user and its main group. */
export interface UserIds {
  uid: number
  gid: number
}

/** The user that runs PostgreSQL. Null: the user of this process. */
export type RunAs = UserIds | null

/** The system user that svc creates when it runs as root and there is no user `postgres`. */
const ownUser = 'svc-postgres'

/**
 * Chooses the user that runs PostgreSQL, which refuses to run as root. Root uses the owner of the cluster, or a system
 * user, which is created when the machine has none. A bare user id is not enough, because initdb looks the user up in
 * /etc/passwd.
 */
export async function chooseRunAs(owner: UserIds | null): Promise<RunAs> {
  if (process.geteuid?.() !== 0) return null
  if (process.platform !== 'linux') {
    throw new Error(
      'The embedded PostgreSQL does not run as root on this system. Run svc as an ordinary user, or set DATABASE_URL.',
    )
  }
  return owner ?? (await findUser('postgres')) ?? (await findUser(ownUser)) ?? (await addUser())
}

/** Returns the owner of a cluster, or null without a cluster. Throws when we cannot run PostgreSQL as the owner. */
export async function findClusterOwner(cluster: string): Promise<UserIds | null> {
  const found = await stat(cluster).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error.code === 'EACCES' ? belongsToAnother(cluster) : error
  })
  if (found === null) return null
  const ownUid = process.geteuid?.()
  if (ownUid !== 0 && found.uid !== ownUid) throw belongsToAnother(cluster)
  if (found.uid === 0) {
    // Root may have copied the cluster. Only the operator knows the owner of the original.
    throw new Error(
      `${cluster} belongs to root, but PostgreSQL does not run as root. Change its owner to another user.`,
    )
  }
  return { uid: found.uid, gid: found.gid }
}

function belongsToAnother(cluster: string): Error {
  return new Error(
    `${cluster} belongs to another user. Run svc as the user who started it first, or set DATA_DIR to another folder.`,
  )
}

async function findUser(name: string): Promise<UserIds | null> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])])
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  } catch {
    return null
  }
}

async function addUser(): Promise<UserIds> {
  const attributes = ['--system', '--user-group', '--no-create-home', '--home-dir=/nonexistent']
  // After a plain `su`, the PATH of root lacks the folder of useradd.
  const env = { ...process.env, PATH: `${process.env['PATH'] ?? '/usr/bin:/bin'}:/usr/sbin:/sbin` }
  const result = await run('useradd', [...attributes, '--shell=/usr/sbin/nologin', ownUser], { env }).catch(
    (error: Error) => error,
  )
  // Look even after a failure: a concurrent start may have created the user.
  const user = await findUser(ownUser)
  if (user !== null) return user
  const reason = result instanceof Error ? result.message.trim() : 'useradd did nothing'
  throw new Error(
    `PostgreSQL does not run as root, and creating a user for it failed (${reason}). Run svc as an ordinary user, or set DATABASE_URL.`,
  )
}
