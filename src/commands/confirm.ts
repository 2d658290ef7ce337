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
export async function confirm(effect: string, name: string, options: ForceOptions): Promise<void> {
  if (!options.force && !hasTerminal()) {
    throw new Error(`${effect} Run the command in a terminal and type ${name}, or use --force.`)
  }
  await confirmInTerminal(effect, name, options)
}

/**
 * The same for what can be undone: it ends access, such as a token, or makes a repository public. A script goes on
 * without `--force`: in an emergency, access must end at once, and everybody can get it again.
 */
export async function confirmInTerminal(
  effect: string,
  name: string,
  { force = false }: ForceOptions,
): Promise<void> {
  if (force || !hasTerminal()) return
  process.stderr.write(`${cleanLine(effect)}\nType ${cleanLine(name)} to continue: `)
  const typed = await readLine(maxLineCharacters)
  if (typed.trim() !== name) throw new Error(`Nothing was changed: that is not ${name}.`)
}

function hasTerminal(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true
}
