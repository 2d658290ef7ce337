import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** Linux counts processor time in hundredths of a second. */
const ticksPerSecond = 100

/** Returns the processor time of a process in seconds. Null without /proc. */
export function cpuSeconds(pid: number): number | null {
  const stat = readStat(String(pid))
  return stat && (stat.own + stat.children) / ticksPerSecond
}

/**
 * Returns the processor time of a PostgreSQL in seconds. It includes the postmaster and all its processes, even ended
 * ones.
 */
export function postgresCpuSeconds(postmasterPid: number): number | null {
  const own = cpuSeconds(postmasterPid)
  if (own === null) return null
  const children = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(readStat)
    .filter((stat) => stat?.parent === postmasterPid)
  return children.reduce((sum, stat) => sum + (stat?.own ?? 0) / ticksPerSecond, own)
}

/** Returns the memory of a process in MiB (RSS). Null without /proc. */
export function memoryMiB(pid: number): number | null {
  try {
    const [, kib] = /^VmRSS:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return kib === undefined ? null : Number(kib) / 1024
  } catch {
    return null
  }
}

/**
 * Waits for `work`, and returns how many MiB the memory of the process grows at most in that time. Null without /proc.
 */
export async function memoryGrowth(pid: number, work: Promise<unknown>): Promise<number | null> {
  const before = memoryMiB(pid)
  let most = before ?? 0
  let isOver = false
  const over = work.finally(() => {
    isOver = true
  })
  while (!isOver) {
    most = Math.max(most, memoryMiB(pid) ?? 0)
    await Promise.race([over, sleep(10)])
  }
  await over
  return before === null ? null : most - before
}

function readStat(pid: string): { parent: number; own: number; children: number } | null {
  try {
    // The name of the program, in parentheses, may contain any character.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
      .map(Number)
    const [parent = 0, utime = 0, stime = 0, cutime = 0, cstime = 0] = [1, 11, 12, 13, 14].map(
      (i) => fields[i],
    )
    return { parent, own: utime + stime, children: cutime + cstime }
  } catch {
    return null
  }
}
