import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin']

/**
 * Returns true when all programs are installed. Otherwise the tests that need them are skipped by name. With CI=true
 * nothing is skipped, so a missing program causes a failure.
 */
export function has(...programs: string[]): boolean {
  if (process.env['CI'] === 'true') return true
  return programs.every((program) => folders.some((folder) => existsSync(join(folder, program))))
}

/** Returns true when the environment variable names what a test needs, and with CI=true always. */
export function hasVariable(name: string): boolean {
  return process.env['CI'] === 'true' || process.env[name] !== undefined
}
