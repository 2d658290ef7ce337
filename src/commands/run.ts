import { constants } from 'node:os'
import { type Command, CommanderError } from 'commander'
import type pg from 'pg'
import { type Account, findAccountByUsername } from '../accounts/accounts.ts'
import { type Config, loadEnvironmentFile, readConfig } from '../config.ts'
import { hasDatabase, openForCommand } from '../database/chosen-database.ts'
import type { Queryable } from '../database/database.ts'
import { findServerUrls } from '../database/installation.ts'
import { isMigrated, migrate } from '../database/migrate.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'
import { type ListPart, pageOf } from '../domain/paging.ts'
import { cleanLine, cleanText } from '../domain/plain-text.ts'
import { findGroup, type Group } from '../groups/groups.ts'
import { findRepositoryByPath, type Repository } from '../groups/repositories.ts'
import { explainFailure } from '../web/server/failure.ts'
import { sameSignalSeconds, stopSignals } from '../web/server/stop-signals.ts'
import { resolveHelp } from './help.ts'
import type { JsonOptions, ListOptions } from './options.ts'

/**
 * Runs a command line. `make` returns its commands, after the environment was read. Returns the exit code: 0, or 1 after one
 * line on stderr.
 */
export async function runProgram(
  make: (words: readonly string[]) => Promise<Command>,
  argv: string[],
): Promise<number> {
  let isStdoutBroken = false
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (!isStdoutBroken) process.stderr.write(`svc: The output could not be written (${error.code}).\n`)
    isStdoutBroken = true
    // A command with an open database has a second listener, which exits when the database is closed.
    if (process.stdout.listenerCount('error') === 1) process.exit(1)
  })
  let misused: Command | null = null
  try {
    loadEnvironmentFile()
    const program = await make(argv.slice(2))
    prepare(program, (command) => {
      misused = command
    })
    await program.parseAsync([...resolveHelp(program, argv.slice(2))], { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0
    const line =
      error instanceof CommanderError
        ? explainMisuse(error, escapeWords(error.message, argv), misused)
        : escapeWords(explainFailure(error), argv)
    process.stderr.write(argv.includes('--json') ? `${JSON.stringify({ error: line })}\n` : `svc: ${line}\n`)
    return 1
  }
}

/**
 * Prints the result of a command: one JSON object with `--json`, otherwise the text. A part of the text may come from
 * other registries. It must not control the terminal.
 */
export function printResult(
  options: JsonOptions,
  json: object,
  text: string,
  output: NodeJS.WriteStream = process.stdout,
): void {
  output.write(options.json ? `${JSON.stringify(json)}\n` : `${cleanText(text)}\n`)
}

/** Escapes the control characters of the command line's words in a message. A message may contain such a word. */
function escapeWords(message: string, argv: readonly string[]): string {
  return argv
    .flatMap((word) => [word, word.slice(word.indexOf('=') + 1)])
    .reduce((safe, word) => safe.replaceAll(word, () => escapeControls(word)), message)
}

/** Replaces control characters with their escapes, such as `\\u001b`. */
function escapeControls(word: string): string {
  return word.replace(
    /\p{Cc}/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Reads the first line of standard input, without its line end. Stops reading after `maxCharacters`. */
export async function readLine(maxCharacters: number): Promise<string> {
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk
    if (text.includes('\n') || text.length > maxCharacters) break
  }
  return text.split(/\r?\n/, 1)[0] ?? ''
}

/** Formats a value of a JSON object as one line of text. An empty value becomes `-`. */
export function formatValue(value: unknown): string {
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.join(' ') || '-'
  if (value === null || value === '') return '-'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Describes how a list is read and printed. */
export interface PrintedList<Row> {
  list: (part: ListPart) => Promise<Row[]>
  /** The value that `--after` takes for the next part. */
  keyOf: (row: Row) => string
  describe: (row: Row) => Record<string, unknown>
  line: (row: Row) => string
  /** Printed instead of an empty list. */
  none: string
}

/**
 * Prints a part of a list, a line for each row. With `--json`: `{"items":[…],"next":…}`; `next` is null in the last
 * part.
 */
export async function printList<Row>(options: ListOptions, listing: PrintedList<Row>): Promise<void> {
  const { limit, after = null } = options
  const { rows, next } = await pageOf(listing.list, { after, limit }, listing.keyOf)
  const lines = rows.map((row) => cleanLine(listing.line(row)))
  if (next !== null) lines.push(`More results: --after ${next}`)
  printResult(options, { items: rows.map(listing.describe), next }, lines.join('\n') || listing.none)
}

/** Returns a part of a short list that was read as a whole. */
export function partOf<Row>(rows: Row[], keyOf: (row: Row) => string, { after, limit }: ListPart): Row[] {
  const start = rows.findIndex((row) => keyOf(row) === after) + 1
  return rows.slice(start, start + limit)
}

/** The work of a command on the database. */
type Work<T> = (db: pg.Pool, config: Config) => Promise<T>

/**
 * Opens the database that the environment chooses, runs the work, and closes the database. An embedded database is
 * created and migrated at its first use. Only `svc serve` and `svc migrate` migrate a database of DATABASE_URL.
 */
export async function withDatabase<T>(work: Work<T>): Promise<T> {
  return withBareDatabase(async (db, config) => {
    if (config.databaseUrl === null && !(await isMigrated(db))) {
      await migrate(db, await findMigrationsDir(config))
    }
    return work(db, await withServerUrls(db, config))
  })
}

/**
 * Returns the configuration with the public URLs that the server stored at its latest start. URLs in the environment of
 * the command take precedence.
 */
async function withServerUrls(db: pg.Pool, config: Config): Promise<Config> {
  const { givenUrls } = config
  if (givenUrls.base) return config
  const noted = await findServerUrls(db)
  if (noted === null) return config
  return { ...config, baseUrl: noted.baseUrl, authUrl: givenUrls.auth ? config.authUrl : noted.authUrl }
}

/**
 * Like `withDatabase`, but throws when there is no database or when it is empty. A backup of a new, empty database would
 * look like a success to an operator who has forgotten to set DATA_DIR or DATABASE_URL.
 */
export async function withExistingDatabase<T>(work: Work<T>): Promise<T> {
  const config = readConfig(process.env)
  if (!(await hasDatabase(config))) throw noDatabase(`There is no database in ${config.dataDir}`)
  return withBareDatabase(async (db) => {
    if (!(await isMigrated(db))) throw noDatabase('The database is empty')
    return work(db, await withServerUrls(db, config))
  })
}

function noDatabase(what: string): Error {
  return new Error(`${what}. Set DATA_DIR or DATABASE_URL as for the server.`)
}

/** Like `withDatabase`, but migrates nothing. */
export async function withBareDatabase<T>(work: Work<T>): Promise<T> {
  const config = readConfig(process.env)
  const start = new AbortController()
  const opening = openForCommand(config, start.signal)
  const opened = opening.catch(() => null)
  const interruption = awaitInterruption(async () => {
    start.abort()
    await (await opened)?.abandon()
  })
  try {
    const { db } = await opening
    return await work(db, config)
  } finally {
    await interruption.endWith(async () => (await opened)?.close())
  }
}

/**
 * Runs `abandon` and exits the process on a signal, and when the output cannot be written. Otherwise the PostgreSQL that
 * a command starts or has started would continue without the command. A later signal exits the process at once.
 * `endWith` closes the database when the work has ended. After an interruption it never resolves: the process exits soon.
 */
function awaitInterruption(abandon: () => Promise<void>) {
  let isInterrupted = false
  let interruptedAt = 0
  const end = (code: number) => {
    isInterrupted = true
    interruptedAt = Date.now()
    void abandon().finally(() => process.exit(code))
  }
  const onSignal = (signal: NodeJS.Signals) => {
    const code = 128 + constants.signals[signal]
    if (!isInterrupted) end(code)
    else if (Date.now() - interruptedAt > sameSignalSeconds * 1000) process.exit(code)
  }
  const onBroken = () => {
    if (!isInterrupted) end(1)
  }
  for (const signal of stopSignals) process.on(signal, onSignal)
  process.stdout.on('error', onBroken)
  return {
    async endWith(close: () => Promise<void>): Promise<void> {
      if (!isInterrupted) await close()
      // The interruption may have come while the database was closed.
      if (isInterrupted) await new Promise(() => {})
      for (const signal of stopSignals) process.off(signal, onSignal)
      process.stdout.off('error', onBroken)
    },
  }
}

/**
 * Makes a command and its subcommands throw usage errors, instead of printing them and exiting. `note` is called before, with
 * the command whose words are wrong.
 */
function prepare(command: Command, note: (misused: Command) => void): void {
  command.configureOutput({ writeErr: () => {} }).exitOverride((error) => {
    note(command)
    throw error
  })
  command.configureHelp({ showGlobalOptions: false })
  for (const child of command.commands) prepare(child, note)
}

/** Says what is wrong with the words, and which help has the right ones. */
function explainMisuse({ code }: CommanderError, message: string, misused: Command | null): string {
  const names: string[] = []
  for (let command = misused; command !== null; command = command.parent) names.unshift(command.name())
  const advice = `Try: ${names.join(' ') || 'svc'} --help`
  if (code === 'commander.help') return `a command is missing. ${advice}`
  return `${message.replace(/^error: /, '').replaceAll('\n', ' ')}. ${advice}`.replace(/\)?\.\. /, '. ')
}

/** Finds the account with a username. Throws when there is none. */
export async function theAccount(db: Queryable, username: string): Promise<Account> {
  return (await findAccountByUsername(db, username)) ?? missing('account', username)
}

/** Finds the group with a name. Throws when there is none. */
export async function theGroup(db: Queryable, name: string): Promise<Group> {
  return (await findGroup(db, name)) ?? missing('group', name)
}

/** Finds the repository with a path such as `acme/php`. Throws when there is none. */
export async function theRepository(db: Queryable, path: string): Promise<Repository> {
  return (await findRepositoryByPath(db, path)) ?? missing('repository', path)
}

function missing(kind: string, name: string): never {
  throw new Error(`There is no ${kind} ${JSON.stringify(name)}.`)
}
