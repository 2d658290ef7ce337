import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { afterAll, beforeAll } from 'vitest'
import { useDatabase } from './database.ts'
import { databaseUrl, type Environment, type Outcome } from './program.ts'
import { runCommand } from './run-command.ts'

/** The command line of svc, with a database, MIGRATIONS_DIR and DATA_DIR for the test file. */
export interface Commands {
  readonly db: pg.Pool
  readonly environment: Environment
  /** Runs `svc …`. */
  run(...words: string[]): Promise<Outcome>
  /** Runs `svc … --json`, which must succeed, and returns its object. */
  json<Result = Record<string, string>>(...words: string[]): Promise<Result>
  /** Runs `svc …`, which must fail, and returns its one line on stderr. */
  fail(...words: string[]): Promise<string>
}

/** Gives a test file its command line, on a database of its own or on that of its app. */
export function useCommands(database = useDatabase()): Commands {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-commands-'))
    await mkdir(join(folder, 'migrations'))
  })
  afterAll(() => rm(folder, { recursive: true }))
  const commands: Commands = {
    get db() {
      return database.db
    },
    get environment() {
      const url = databaseUrl(database.connection)
      return {
        DATABASE_URL: url,
        MIGRATIONS_DIR: join(folder, 'migrations'),
        DATA_DIR: join(folder, 'data'),
        BASE_URL: 'https://svc.example.com',
      }
    },
    run: (...words) => runCommand(words, commands.environment),
    async json(...words) {
      const { code, stdout, stderr } = await commands.run(...words, '--json')
      if (code !== 0) throw new Error(`svc ${words.join(' ')}: ${stderr}`)
      return JSON.parse(stdout)
    },
    async fail(...words) {
      const { code, stdout, stderr } = await commands.run(...words)
      const [line = '', ...more] = stderr.trimEnd().split('\n')
      if (code === 1 && stdout === '' && more.length === 0) return line
      throw new Error(`svc ${words.join(' ')} did not fail with one line: ${code} ${stdout} ${stderr}`)
    },
  }
  return commands
}
