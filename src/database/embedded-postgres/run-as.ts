import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A user and its main group, by number. */
export interface UserIds {
  uid: number
  gid: number
}

/** Who runs PostgreSQL: `ids` is null when that is simply the user of this process. */
export interface RunAs {
  ids: UserIds | null
}

/** Made when we are root and the machine has no user `postgres`. */
const ownUser = 'svc-postgres'

/**
 * Chooses the user that runs PostgreSQL, which refuses to run as root: the cluster's owner when there is one, else
 * ourselves, else (we are root) a system user, made when the machine has none. A bare number would not do, because
 * initdb looks its user up in /etc/passwd.
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

/** The owner of a DATA_DIR's cluster, null when there is no cluster. Throws when it is none that we can act for. */
export async function findClusterOwner(cluster: string): Promise<UserIds | null> {
  const found = await stat(cluster).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error.code === 'EACCES' ? belongsToAnother(cluster) : error
  })
  if (found === null) return null
  const ownUid = process.geteuid?.()
  if (ownUid !== 0 && found.uid !== ownUid) throw belongsToAnother(cluster)
  if (found.uid === 0) {
    // A copy made by root, say: PostgreSQL would refuse it, and whose it was only the operator knows.
    throw new Error(`${cluster} belongs to root, as whom PostgreSQL does not run. Give it to another user.`)
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
  // After a plain `su`, root's PATH lacks useradd's folder.
  const env = { ...process.env, PATH: `${process.env['PATH'] ?? '/usr/bin:/bin'}:/usr/sbin:/sbin` }
  const failure = await run('useradd', [...attributes, '--shell=/usr/sbin/nologin', ownUser], { env }).then(
    () => null,
    (error: Error) => error,
  )
  // Whether or not we made it: another start may have been faster.
  const user = await findUser(ownUser)
  if (user !== null) return user
  throw new Error(
    `PostgreSQL does not run as root, and making a user for it failed (${failure?.message.trim()}). Run svc as an ordinary user, or set DATABASE_URL.`,
  )
}
