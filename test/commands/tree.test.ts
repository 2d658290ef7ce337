import { readdir, readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { describe, expect, it, vi } from 'vitest'
import { makeProgram } from '../../src/commands/program.ts'
import { runProgram } from '../../src/commands/run.ts'

/** Every command that does something, with its path: `account create`. */
function listLeaves(command: Command, path: string): [path: string, command: Command][] {
  if (command.commands.length === 0) return [[path, command]]
  return command.commands.flatMap((child) => listLeaves(child, `${path} ${child.name()}`.trim()))
}

const program = await makeProgram('1.2.3')
const leaves = listLeaves(program, '')
const optionsOf = (command: Command) => command.options.map(({ long }) => long)

/**
 * Reads the list of commands in a document: `npx svc account show <username> | disable|enable <username>`. Returns the
 * usage of each command by its path.
 */
function listUsages(document: string): Map<string, string> {
  const lines = document.replaceAll(/\n +(?=\[)/g, ' ').match(/^npx svc .*/gm) ?? []
  const paths = new Set(leaves.map(([path]) => path))
  const usages = new Map<string, string>()
  for (const line of lines) {
    const [, , noun = ''] = line.split(' ')
    for (const usage of line.slice('npx svc '.length).split(/ \| (?=[a-z])/)) {
      const [first = '', second = ''] = usage.split(' ')
      const named = [
        ...first.split('|').flatMap((word) => [word, `${noun} ${word}`]),
        ...second.split('|').map((word) => `${first} ${word}`),
      ]
      for (const path of named.filter((one) => paths.has(one)))
        usages.set(path, `${usages.get(path) ?? ''} ${usage}`)
    }
  }
  return usages
}

describe('the tree of commands', () => {
  it('prints JSON with --json everywhere, except for the server and the completion scripts', () => {
    expect(leaves.length).toBeGreaterThan(60)
    const without = leaves.filter(([, command]) => !optionsOf(command).includes('--json'))
    expect(without.map(([path]) => path)).toEqual(['serve', 'completion'])
  })

  it('pages every list', () => {
    const lists = leaves.filter(([path]) => /(?:^| )(?:list|history)$/.test(path))
    expect(lists.length).toBeGreaterThan(10)
    for (const [path, command] of lists) {
      expect([path, optionsOf(command)]).toEqual([path, expect.arrayContaining(['--limit', '--after'])])
    }
  })

  it('loads a command alone under its name, none for --version, and all for completion scripts and other words', async () => {
    const names = program.commands.map((command) => command.name())
    const loadedFor = async (word?: string) =>
      (await makeProgram('1.2.3', word)).commands.map((command) => command.name())
    for (const name of names) {
      expect(await loadedFor(name)).toEqual(name === 'completion' ? names : [name])
    }
    expect(await loadedFor('--version')).toEqual([])
    for (const word of [undefined, 'help', '--help', 'frobnicate', 'constructor', '__proto__']) {
      expect([word, await loadedFor(word)]).toEqual([word, names])
    }
  })

  it('explains every command, argument and option', () => {
    const explained = (command: Command): void => {
      expect([command.name(), command.description()]).toEqual([command.name(), expect.stringMatching(/./)])
      for (const { long, description } of command.options) {
        expect([command.name(), long, description]).toEqual([
          command.name(),
          long,
          expect.stringMatching(/./),
        ])
      }
      for (const argument of command.registeredArguments) {
        const name = argument.name()
        expect([command.name(), name, argument.description]).toEqual([
          command.name(),
          name,
          expect.stringMatching(/./),
        ])
      }
      expect(command.helpInformation()).toContain(`Usage: `)
      for (const child of command.commands) explained(child)
    }
    explained(program)
  })

  it('prints the help of every command with help before it, between its words and with --help', async () => {
    const groups = program.commands.filter(({ commands }) => commands.length > 0)
    for (const [path] of [...leaves, ...groups.map((group) => [group.name()] as const)]) {
      const [first = '', ...more] = path.split(' ')
      const expected = await ran([first, ...more, '--help'])
      expect(expected).toEqual({ code: 0, stdout: expect.stringContaining(`Usage: svc ${path}`), stderr: '' })
      expect([path, await ran(['help', first, ...more])]).toEqual([path, expected])
      if (more.length > 0) expect([path, await ran([first, 'help', ...more])]).toEqual([path, expected])
    }
    expect(await ran(['help'])).toEqual(await ran(['--help']))
    expect(await ran(['upstream', 'help'])).toEqual(await ran(['upstream', '--help']))
  })

  it.each([
    ['help frobnicate', 'frobnicate', 'svc --help'],
    ['help upstream frobnicate', 'upstream frobnicate', 'svc upstream --help'],
    ['upstream help frobnicate', 'upstream frobnicate', 'svc upstream --help'],
    ['help upstream add frobnicate', 'upstream add frobnicate', 'svc upstream add --help'],
    ['help upstream constructor', 'upstream constructor', 'svc upstream --help'],
  ])('has no %s', async (words, unknown, help) => {
    expect(await ran(words.split(' '))).toEqual({
      code: 1,
      stdout: '',
      stderr: `svc: unknown command '${unknown}'. Try: ${help}\n`,
    })
  })

  it.each([
    ['account', 'svc account --help'],
    ['account frobnicate', 'svc account --help'],
    ['account list --state frobnicate', 'svc account list --help'],
    ['token create ann', 'svc token create --help'],
    ['frobnicate', 'svc --help'],
  ])('names the help that has the words for %s', async (words, help) => {
    const { code, stderr } = await ran(words.split(' '))
    expect([code, stderr]).toEqual([1, expect.stringMatching(`Try: ${help}\n$`)])
  })

  it('takes the word help as an argument of a command', async () => {
    const { stderr } = await ran(['account', 'show', 'help', 'more'])
    expect(stderr).toContain('too many arguments')
  })

  it('is in the documentation, with all options', async () => {
    const text = await readFile(new URL('../../docs/operations.md', import.meta.url), 'utf8')
    const usages = listUsages(text)
    const common = ['--json', '--limit', '--after']
    const missing = leaves.flatMap(([path, command]) => {
      const usage = usages.get(path)
      if (usage === undefined) return [path]
      // `…` stands for the options of the command before.
      if (usage.includes(' …')) return []
      const unknown = optionsOf(command).filter((option = '') => {
        const pair = option.replace(/^--(?:no-)?/, '--[no-]')
        return !common.includes(option) && !usage.includes(option) && !usage.includes(pair)
      })
      return unknown.map((option) => `${path} ${option}`)
    })
    expect(missing).toEqual([])
  })

  it('accepts every command of the shell blocks in README.md and docs/', async () => {
    const documents = await readdir('docs')
    const files = [
      'README.md',
      ...documents.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
    ]
    const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')))
    const given = texts
      .flatMap((text) => Array.from(text.matchAll(/^```sh\n(.*?)^```$/gms), ([, block = '']) => block))
      .flatMap((block) => Array.from(block.replaceAll('\\\n', ' ').matchAll(/\bsvc svc (.*)|npx svc (.*)/g)))
      .map(([, inContainer, here]) => wordsOf(inContainer ?? here ?? ''))
    expect(given.length).toBeGreaterThan(8)
    for (const words of given)
      expect([words.join(' '), await isAccepted(words)]).toEqual([words.join(' '), true])
    expect(await isAccepted(['backup'])).toBe(false)
    expect(await isAccepted(['demo', '--rest'])).toBe(false)
  })

  it('is in the completion scripts of bash and zsh', async () => {
    for (const shell of ['bash', 'zsh']) {
      const script = await printed(['completion', shell])
      for (const [path] of leaves) expect(script).toContain(`'${path}') words='`)
    }
  })
})

/** Splits a command line at blanks outside of quotes, up to the end of the command. */
function wordsOf(line: string): string[] {
  const words = line.match(/'[^']*'|"[^"]*"|[|)&;<>]|[^\s|)&;<>'"]+/g) ?? []
  const end = words.findIndex((word) => /^[|)&;<>]$/.test(word))
  return words.slice(0, end < 0 ? words.length : end).map((word) => word.replace(/^(['"])(.*)\1$/, '$2'))
}

/** Returns whether the words are a command with the right arguments and options. Does not run it. */
async function isAccepted(words: string[]): Promise<boolean> {
  const parsed = await makeProgram('1.2.3')
  const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)]
  let isReached = false
  for (const command of all(parsed)) {
    command.exitOverride().configureOutput({ writeErr: () => {} })
    if (command.commands.length > 0) continue
    command.action(() => {
      isReached = true
    })
  }
  await parsed.parseAsync(['node', 'svc', ...words]).catch(() => {})
  return isReached
}

/** Runs a command line in this process. Returns the exit code and the output. */
async function ran(words: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const stdout = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const textOf = ({ mock }: typeof stdout) => mock.calls.map(([chunk]) => String(chunk)).join('')
  const listeners = process.stdout.listeners('error')
  try {
    const code = await runProgram(() => makeProgram('1.2.3'), ['node', 'svc', ...words])
    return { code, stdout: textOf(stdout), stderr: textOf(stderr) }
  } finally {
    for (const listener of process.stdout.listeners('error')) {
      if (!listeners.includes(listener)) process.stdout.off('error', listener as () => void)
    }
    stdout.mockRestore()
    stderr.mockRestore()
  }
}

async function printed(words: string[]): Promise<string> {
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  try {
    const parsed = await makeProgram('1.2.3')
    await parsed.parseAsync(['node', 'svc', ...words])
    return written.mock.calls.map(([chunk]) => String(chunk)).join('')
  } finally {
    written.mockRestore()
  }
}
