import type { Command } from 'commander'

/**
 * Returns the words of a command line with `help a b` and `a help b` replaced by `a b --help`. commander itself reads
 * only one word after `help`. Throws a CommanderError when there is no such command.
 */
export function resolveHelp(program: Command, words: readonly string[]): readonly string[] {
  const path = findHelpPath(program, words)
  if (path === null) return words
  let command = program
  for (const [i, word] of path.entries()) {
    const child = findChild(command, word)
    if (!child) return command.error(`error: unknown command '${path.slice(0, i + 1).join(' ')}'`)
    command = child
  }
  return [...path, '--help']
}

/** Returns the words that name the command whose help is wanted. Null when the words do not request help this way. */
function findHelpPath(program: Command, words: readonly string[]): string[] | null {
  let command: Command | undefined = program
  for (const [i, word] of words.entries()) {
    // A command without subcommands takes the word as its argument.
    if (!command || command.commands.length === 0) return null
    const rest = words.slice(i + 1).filter((one) => !one.startsWith('-'))
    if (word === 'help') return [...words.slice(0, i), ...rest]
    command = findChild(command, word)
  }
  return null
}

function findChild({ commands }: Command, word: string): Command | undefined {
  return commands.find((command) => command.name() === word)
}
