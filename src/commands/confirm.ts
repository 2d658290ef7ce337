import { Option } from 'commander'
import { cleanLine } from '../domain/plain-text.ts'
import type { JsonOptions } from './options.ts'
import { readLine } from './run.ts'

/** The options of a command that nobody can undo. */
export interface ForceOptions extends JsonOptions {
  force?: boolean
}

/** Returns `--force`, for every command that nobody can undo. */
export function forceOption(): Option {
  return new Option('--force', 'do not ask for confirmation')
}

const maxLineCharacters = 1000

/**
 * Lets a person confirm what nobody can undo: they type the name of what the command destroys. `effect` is a sentence
 * about it. Does not ask with `--force`. Throws when the person types anything else, and when no terminal is there to
 * ask: a script needs `--force`.
 */
export async function confirm(effect: string, name: string, { force = false }: ForceOptions): Promise<void> {
  if (force) return
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new Error(`${effect} Run the command in a terminal and type ${name}, or use --force.`)
  }
  process.stderr.write(`${cleanLine(effect)}\nType ${cleanLine(name)} to continue: `)
  const typed = await readLine(maxLineCharacters)
  if (typed.trim() !== name) throw new Error(`Nothing was changed: that is not ${name}.`)
}
