import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Who runs PostgreSQL: `ids` is null when that is simply the user of this process. */
export interface RunAs {
  ids: { uid: number; gid: number } | null
}

/**
 * Chooses the user that runs PostgreSQL, which refuses to run as root: the cluster's owner when there is one, else
 * ourselves, else (we are root) a system user, made when the machine has none. A bare number would not do, because
 * initdb looks its user up in /etc/passwd.
 */
export async function chooseRunAs(clusterFolder: string): Promise<RunAs> {
  const ownUid = process.geteuid?.() ?? -1
  const owner = await findOwner(clusterFolder)
  if (ownUid !== 0) {
    if (owner === null || owner.uid === ownUid) return { ids: null }
    throw belongsToAnother(clusterFolder)
  }
  if (owner !== null && owner.uid !== 0) return { ids: owner }
  if (process.platform !== 'linux') {
    throw new Error(
      'The embedded PostgreSQL does not run as root on this system. Run svc as an ordinary user, or set DATABASE_URL.',
    )
  }
  const user = (await findUser('postgres')) ?? (await findUser('svc-postgres')) ?? (await addUser())
  return { ids: user }
}

async function findOwner(clusterFolder: string): Promise<{ uid: number; gid: number } | null> {
  try {
    const { uid, gid } = await stat(clusterFolder)
    return { uid, gid }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return null
    if (code === 'EACCES') throw belongsToAnother(clusterFolder)
    throw error
  }
}

function belongsToAnother(clusterFolder: string): Error {
  return new Error(
    `${clusterFolder} belongs to another user. Run svc as the user who started it first, or set DATA_DIR to another folder.`,
  )
}

async function findUser(name: string): Promise<{ uid: number; gid: number } | null> {
  try {
    const uid = await run('id', ['-u', name])
    const gid = await run('id', ['-g', name])
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  } catch {
    return null
  }
}

async function addUser(): Promise<{ uid: number; gid: number }> {
  const name = 'svc-postgres'
  const failure = await run('useradd', [
    '--system',
    '--user-group',
    '--no-create-home',
    '--home-dir',
    '/nonexistent',
    '--shell',
    '/usr/sbin/nologin',
    name,
  ]).then(
    () => null,
    (error: Error) => error,
  )
  // Whether or not we made it: another start may have been faster.
  const user = await findUser(name)
  if (user !== null) return user
  throw new Error(
    `PostgreSQL does not run as root, and making a user for it failed (${failure?.message.trim()}). Run svc as an ordinary user, or set DATABASE_URL.`,
  )
}
