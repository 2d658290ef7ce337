import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { registryUrl } from '../../src/groups/repositories.ts'
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
  read: (name: string) => Promise<string>
  /** Deletes what Composer has downloaded, or the installed packages. */
  forget: (...what: ('cache' | 'vendor')[]) => Promise<void>
  remove: () => Promise<void>
}

/** Creates an empty project. */
export async function aComposerProject(): Promise<ComposerProject> {
  const root = await mkdtemp(join(tmpdir(), 'svc-test-composer-'))
  const folder = join(root, 'project')
  await mkdir(folder)
  const env = {
    PATH: process.env['PATH'],
    HOME: root,
    COMPOSER_HOME: join(root, 'home'),
    COMPOSER_CACHE_DIR: join(root, 'cache'),
    COMPOSER_ALLOW_SUPERUSER: '1',
    COMPOSER_NO_INTERACTION: '1',
    NO_COLOR: '1',
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
    read: (name) => readFile(join(folder, name), 'utf8'),
    forget: async (...what) => {
      const folders = { cache: join(root, 'cache'), vendor: join(folder, 'vendor') }
      for (const one of what) await rm(folders[one], { recursive: true, force: true })
    },
    remove: () => rm(root, { recursive: true }),
  }
}

/** Sets a project up as in SPEC 4.5: without the public source, with the registries and one token for the host. */
export async function useRegistries(
  { composer, write }: ComposerProject,
  baseUrl: string,
  token: string,
  ...paths: string[]
): Promise<void> {
  await write('composer.json', { name: 'my/project', config: { 'secure-http': false } })
  await composer('config', '-g', 'repositories.packagist.org', 'false')
  for (const [i, path] of paths.entries()) {
    await composer('config', `repositories.svc${i}`, 'composer', registryUrl(baseUrl, path))
  }
  await composer('config', '-g', `http-basic.${new URL(baseUrl).host}`, 'svc', token)
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
