import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { registryUrl } from '../../src/groups/repositories.ts'
import { quickPhp } from './php.ts'
import { has } from './requires.ts'

/** Whether the real Composer can run here. */
export const hasComposerClient = has('composer', 'php', 'unzip', 'curl')

/** The result of a command. Composer writes to both streams, so the two are joined. */
export interface CommandOutcome {
  code: number | null
  output: string
}

/** A PHP project on this machine. Its Composer has separate home, cache and credentials. */
export interface ComposerProject {
  folder: string
  composer: (...words: string[]) => Promise<CommandOutcome>
  php: (code: string) => Promise<string>
  write: (name: string, content: string | object) => Promise<void>
  /** Writes a file of the user, such as `auth.json`. */
  writeHome: (name: string, content: object) => Promise<void>
  read: (name: string) => Promise<string>
  /** Deletes what Composer has downloaded, or the installed packages. */
  forget: (...what: ('cache' | 'vendor')[]) => Promise<void>
  remove: () => Promise<void>
}

/** Creates an empty project. */
export async function aComposerProject(): Promise<ComposerProject> {
  const root = await mkdtemp(join(tmpdir(), 'svc-test-composer-'))
  const folder = join(root, 'project')
  const home = join(root, 'home')
  await mkdir(folder)
  await mkdir(home)
  const env = {
    ...quickPhp(),
    PATH: process.env['PATH'],
    HOME: root,
    COMPOSER_HOME: home,
    COMPOSER_CACHE_DIR: join(root, 'cache'),
    COMPOSER_ALLOW_SUPERUSER: '1',
    COMPOSER_NO_INTERACTION: '1',
    NO_COLOR: '1',
    // Otherwise each run starts ten programs, to find out the version of the project and the size of the terminal.
    COMPOSER_ROOT_VERSION: '1.0.0',
    COLUMNS: '80',
    LINES: '50',
  }

  async function run(program: string, words: string[]): Promise<CommandOutcome> {
    const child = spawn(program, words, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
    const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
    return { code, output: err + out }
  }

  return {
    folder,
    composer: (...words) => run('composer', words),
    php: async (code) => (await run('php', ['-r', code])).output,
    write: (name, content) =>
      writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content)),
    writeHome: (name, content) => writeFile(join(home, name), JSON.stringify(content)),
    read: (name) => readFile(join(folder, name), 'utf8'),
    forget: async (...what) => {
      const folders = { cache: join(root, 'cache'), vendor: join(folder, 'vendor') }
      for (const one of what) await rm(folders[one], { recursive: true, force: true })
    },
    remove: () => rm(root, { recursive: true }),
  }
}

/**
 * Sets a project up as in SPEC 4.5: without the public source, with the registries and one token for the host. Writes what the
 * commands would write. The tests of the documents and of the main job run these commands.
 */
export async function useRegistries(
  { write, writeHome }: ComposerProject,
  baseUrl: string,
  token: string,
  ...paths: string[]
): Promise<void> {
  // Each command puts its registry before the others.
  const registries = paths
    .map((path, i) => [`svc${i}`, { type: 'composer', url: registryUrl(baseUrl, path) }] as const)
    .reverse()
  const repositories = Object.fromEntries(registries)
  await write('composer.json', { name: 'my/project', config: { 'secure-http': false }, repositories })
  await writeHome('config.json', { repositories: { 'packagist.org': false } })
  const login = { username: 'svc', password: token }
  await writeHome('auth.json', { 'http-basic': { [new URL(baseUrl).host]: login } })
}

/**
 * Returns the requests in a server's log, in the order of the responses, such as `200 GET
 * /acme/php/-/packages/packages.json`.
 */
export function requestsIn(log: string): string[] {
  const asked = new Map<string, string>()
  const requests: string[] = []
  for (const line of log.split('\n').filter(Boolean)) {
    const { reqId, req, res } = JSON.parse(line) as {
      reqId?: string
      req?: { method: string; path: string }
      res?: { status: number }
    }
    if (reqId !== undefined && req) asked.set(reqId, `${req.method} ${req.path}`)
    if (reqId !== undefined && res) requests.push(`${res.status} ${asked.get(reqId)}`)
  }
  return requests
}
