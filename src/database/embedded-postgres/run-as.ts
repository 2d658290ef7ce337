import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A user and its main group, by number. */
export interface UserIds {
  uid: number
  gid: number
}

/** The user who runs PostgreSQL: `ids` is null for the user of this process. */
export interface RunAs {
  ids: UserIds | null
}

/** The user that is created when svc runs as root and the machine has no user `postgres`. */
const ownUser = 'svc-postgres'

/**
 * Chooses the user that runs PostgreSQL, which refuses to run as root. It is the owner of the cluster, or the user of
 * this process. For root it is a system user, which is created if necessary. It must be in /etc/passwd, because initdb
 * looks its user up there.
 */
export async function chooseRunAs(owner: UserIds | null): Promise<RunAs> {
  if (process.geteuid?.() !== 0) return { ids: null }
  if (process.platform !== 'linux') {
    throw new Error(
      'The embedded PostgreSQL does not run as root on this system. Run svc as an ordinary user, or set DATABASE_URL.',
    )
  }
  return { ids: owner ?? (await findUser('postgres')) ?? (await findUser(ownUser)) ?? (await addUser()) }
}

/** Returns the owner of a DATA_DIR's cluster. Null when there is no cluster. Throws when svc cannot run as the owner. */
export async function findClusterOwner(cluster: string): Promise<UserIds | null> {
  const found = await stat(cluster).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error.code === 'EACCES' ? belongsToAnother(cluster) : error
  })
  if (found === null) return null
  const ownUid = process.geteuid?.()
  if (ownUid !== 0 && found.uid !== ownUid) throw belongsToAnother(cluster)
  if (found.uid === 0) {
    // For example a copy that root made. PostgreSQL would refuse it, and only the operator knows the right owner.
    throw new Error(
      `${cluster} belongs to root, but PostgreSQL does not run as root. Change its owner to another user.`,
    )
  }
  return { uid: found.uid, gid: found.gid }
}

function belongsToAnother(clusterFolder: string): Error {
  return new Error(
    `${clusterFolder} belongs to another user. Run svc as the user who started it first, or set DATA_DIR to another folder.`,
  )
}

async function findUser(name: string): Promise<UserIds | null> {
  try {
    const uid = await run('id', ['-u', name])
    const gid = await run('id', ['-g', name])
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  } catch {
    return null
  }
}

async function addUser(): Promise<UserIds> {
  const attributes = ['--system', '--user-group', '--no-create-home', '--home-dir=/nonexistent']
  // After a plain `su`, the PATH of root lacks the folder of useradd.
  const env = { ...process.env, PATH: `${process.env['PATH'] ?? '/usr/bin:/bin'}:/usr/sbin:/sbin` }
  const failure = await run('useradd', [...attributes, '--shell=/usr/sbin/nologin', ownUser], { env }).then(
    () => null,
    (error: Error) => error,
  )
  // Look it up even if useradd failed: another start may have been faster.
  const user = await findUser(ownUser)
  if (user !== null) return user
  throw new Error(
    `PostgreSQL does not run as root, and creating a user for it failed (${failure?.message.trim()}). Run svc as an ordinary user, or set DATABASE_URL.`,
  )
}
