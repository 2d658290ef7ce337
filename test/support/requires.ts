import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const folders = (process.env['PATH'] ?? '').split(delimiter)

/**
 * True when this machine has every one of the programs; tests that need them are skipped by name where it has not.
 * With CI=true nothing is skipped: what is missing there fails.
 */
export function has(...programs: string[]): boolean {
  if (process.env['CI'] === 'true') return true
  return programs.every((program) => folders.some((folder) => existsSync(join(folder, program))))
}
