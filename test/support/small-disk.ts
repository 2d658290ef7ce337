import { spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Mounts a small file system over a folder. False when this user is not allowed to. */
export function mountSmallDisk(folder: string, mebibytes: number): boolean {
  const words = ['-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'tmpfs', folder]
  return spawnSync('mount', words).status === 0
}

/** Makes a mounted file system read-only, as Linux does after an error of the disk, or writable again. */
export function remount(folder: string, as: 'ro' | 'rw'): void {
  const { status, stderr } = spawnSync('mount', ['-o', `remount,${as}`, folder], { encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
}

const probe = await mkdtemp(join(tmpdir(), 'svc-test-mount-'))
/** Whether this user may mount a file system. */
export const canMount = mountSmallDisk(probe, 1) && spawnSync('umount', [probe]).status === 0
await rm(probe, { recursive: true })
