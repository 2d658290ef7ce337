import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { registryUrl } from '../../src/repositories/repositories.ts'
import { has } from './requires.ts'

/** Whether the real Composer can be driven here. */
export const hasComposerClient = has('composer', 'php', 'unzip', 'curl')

/** How a command ended; Composer talks on both streams, so they are one here. */
export interface CommandOutcome {
  code: number | null
  output: string
}

/** A PHP project on this machine, with a Composer of its own: home, cache and credentials are nobody else's. */
export interface ComposerProject {
  folder: string
  composer: (...words: string[]) => Promise<CommandOutcome>
  php: (code: string) => Promise<string>
  write: (name: string, content: string | object) => Promise<void>
  read: (name: string) => Promise<string>
  /** Forgets what Composer has downloaded, and optionally what is installed. */
  forget: (...what: ('cache' | 'vendor')[]) => Promise<void>
  remove: () => Promise<void>
}

/** Makes a project that knows nothing yet. */
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

/** Sets a project up as SPEC 4.5 says: no public source, the registries, one token for the host. */
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

/** The requests that a server received, from its log: `200 GET /acme/php/-/packages/packages.json`, in order of the responses. */
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
